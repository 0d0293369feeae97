// Package fleet is worker nodes: machines that joined over the bus and serve their
// own model servers. [Edge] offers each of their upstreams as an
// http.RoundTripper, so that a call's path cannot tell it from a provider's;
// [Node] is the other end. FLEET.md is what they say to one another.
package fleet
