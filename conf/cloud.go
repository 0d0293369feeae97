package conf

import (
	"slices"
	"strings"

	"headway/core"
)

// cloud tells which cloud's settings a format has: "bedrock", "vertex", or "".
func cloud(f core.Format) string {
	switch f {
	case core.FormatBedrock, core.FormatConverse:
		return "bedrock"
	case core.FormatVertexAnthropic, core.FormatVertexGoogle:
		return "vertex"
	}
	return ""
}

// below is what the paths of a format's calls begin with.
func below(f core.Format) string {
	if cloud(f) == "bedrock" {
		return "model/"
	}
	return "v1"
}

// there tells whether a mapping has a key; in an admin call null is "left out".
func there(b *binder, at place, name string) bool {
	under := at.child(name)
	return under.node != at.node && !(b.api && under.node.Tag == "!!null")
}

// checkCloud holds a provider's address and credentials against its format
// (SPEC §24): what it needs, and what only another one has. Region, project and
// location become parts of addresses, so they are held to what those may be.
func checkCloud(b *binder, at place, p *provider) {
	in := cloud(p.Format)
	need := func(name, hint string) {
		if !there(b, at, name) {
			b.fail(at.named(name), hint, "is missing")
		}
	}
	for _, c := range []struct {
		cloud string
		keys  []string
	}{
		{"bedrock", []string{"access_key_id", "secret_access_key", "session_token"}},
		{"vertex", []string{"project", "location"}},
	} {
		for _, name := range c.keys {
			if c.cloud != in && slices.Contains(formats, string(p.Format)) && there(b, at, name) {
				b.fail(at.child(name), "", "is a setting of %s formats, and this one is %s", c.cloud, p.Format)
			}
		}
	}
	part := func(name, value, signs, of string) {
		if value != "" && !wordOf(value, "abcdefghijklmnopqrstuvwxyz0123456789", signs) {
			b.fail(at.child(name), "", "is no %s of %s", name, of)
		}
	}
	switch in {
	case "":
		need("base_url", "where it answers: an address like https://api.example.com/v1")
	case "bedrock":
		need("region", "the AWS region, like eu-central-1")
		part("region", p.Region, "-", "AWS")
		checkAccessKey(b, at, p)
	case "vertex":
		need("project", "the Google Cloud project")
		need("location", "the Google Cloud location, like europe-west1 or global")
		part("project", p.Project, "-.:", "Google Cloud") // example.com:project
		part("location", p.Location, "-", "Google Cloud")
	}
}

// checkAccessKey says which of Amazon's credentials do not go together.
func checkAccessKey(b *binder, at place, p *provider) {
	id, secret := there(b, at, "access_key_id"), there(b, at, "secret_access_key")
	switch {
	case id && !secret:
		b.fail(at.named("secret_access_key"), "it belongs to access_key_id", "is missing")
	case secret && !id:
		b.fail(at.named("access_key_id"), "it belongs to secret_access_key", "is missing")
	case id && !p.APIKey.Empty():
		b.fail(at.child("access_key_id"), "leave one of them out", "stands beside api_key, which is a credential of its own")
	}
	if !id && !secret && there(b, at, "session_token") {
		b.fail(at.child("session_token"), "", "is without its access_key_id")
	}
	if strings.ContainsAny(p.AccessKeyID, " /,") {
		b.fail(at.child("access_key_id"), "", "is no id of an AWS access key")
	}
}
