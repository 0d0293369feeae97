package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"headway/core"
)

// Client makes admin calls. Its errors are *core.Error: those of the server as it
// said them, and Unavailable where it cannot be reached.
type Client struct {
	http  http.Client
	base  string
	token core.Secret
	where string // for errors
}

// ErrNoServer is the cause of an error that says that no server runs.
var ErrNoServer = errors.New("no server runs")

// Dial makes a client of the server that runs on a data folder, over its socket.
func Dial(dataDir string) (*Client, error) {
	path, err := socketPath(dataDir)
	if err != nil {
		return nil, noServer(dataDir, err)
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	c := &Client{base: "http://headway", where: dataDir}
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err != nil {
			return nil, noServer(dataDir, err)
		}
		return conn, nil
	}}
	return c, nil
}

// noServer is the error of a socket that cannot be dialled.
func noServer(dataDir string, err error) *core.Error {
	if errors.Is(err, fs.ErrPermission) {
		return &core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf("the data folder %q may not be used: permission denied", dataDir), Err: err,
			Hint: "run this as the user that headway runs as, or use --server URL"}
	}
	return &core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf("no headway serves the data folder %q", dataDir), Err: ErrNoServer,
		Hint: "start one with `headway serve`, or say which with --data FOLDER or --server URL"}
}

// Remote makes a client of a server by its URL and its admin token.
func Remote(server string, token core.Secret) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, &core.Error{Kind: core.Invalid, Msg: "--server: not the address of a server", Hint: "write it like http://127.0.0.1:8080"}
	}
	if token.Empty() {
		return nil, &core.Error{Kind: core.Unauthorized, Msg: "HEADWAY_ADMIN_TOKEN is not set, and --server needs it",
			Hint: "it is admin_token of the server's file, or in the file admin-token of its data folder"}
	}
	c := &Client{base: u.Scheme + "://" + u.Host, token: token, where: u.Scheme + "://" + u.Host}
	// The token goes nowhere else.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// largestAnswer bounds what is read of one answer, in bytes.
const largestAnswer = 256 << 20

// send makes one call; in is sent as it is where it is bytes, else as JSON. The
// answer's body is to be closed.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	var body io.Reader
	switch v := in.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	target := c.base + "/admin/v1/" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if !c.token.Empty() {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(err)
	}
	return resp, nil
}

// open makes one call as send does, for an answer that is read as it comes: one that is
// no answer but an error is the error.
func (c *Client) open(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	resp, err := c.send(ctx, method, path, query, in)
	if err != nil || resp.StatusCode/100 == 2 {
		return resp, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, longestBody))
	if err != nil {
		return nil, c.failed(err)
	}
	return nil, c.refused(resp.StatusCode, answer)
}

// do makes one call as send does; out takes the answer's JSON.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	resp, err := c.send(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer))
	if err != nil {
		return c.failed(err)
	}
	if resp.StatusCode/100 != 2 {
		return c.refused(resp.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return &core.Error{Kind: core.Upstream, Msg: c.where + ": the answer is not that of a headway", Err: err}
	}
	return nil
}

// failed is the error of a call that got no answer.
func (c *Client) failed(err error) error {
	var e *core.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &core.Error{Kind: core.Canceled, Msg: "interrupted", Err: err}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // in the middle of an answer
		return &core.Error{Kind: core.Unavailable, Msg: c.where + ": the answer broke off", Err: err,
			Hint: "the server's log says why, where it was the server that broke it off"}
	}
	var op *net.OpError
	why := "the connection broke"
	if errors.As(err, &op) && op.Op == "dial" {
		why = op.Err.Error()
	}
	return &core.Error{Kind: core.Unavailable, Msg: fmt.Sprintf("%s: no answer: %s", c.where, why), Err: err,
		Hint: "see that the server runs, and that this is its address"}
}

// refused is the server's own error.
func (c *Client) refused(status int, answer []byte) error {
	var body errorBody
	if json.Unmarshal(answer, &body) != nil || body.Error.Message == "" {
		return &core.Error{Kind: core.Upstream, Msg: fmt.Sprintf("%s: answered with status %d, not as a headway does", c.where, status)}
	}
	e := &core.Error{Kind: core.Internal, Msg: body.Error.Message, Hint: body.Error.Hint, Param: body.Error.Param}
	for kind, info := range core.Kinds {
		if info.Name == body.Error.Type {
			e.Kind = kind
		}
	}
	if body.Error.Type == codeConflict {
		e.Kind, e.Code = core.Forbidden, codeConflict
	}
	return e
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	err = c.do(ctx, http.MethodGet, path, query, nil, &v)
	return v, err
}

func post[T any](ctx context.Context, c *Client, path string, in any) (v T, err error) {
	err = c.do(ctx, http.MethodPost, path, nil, in, &v)
	return v, err
}

// Calls lists receipts without their decisions; query is that of GET calls.
func (c *Client) Calls(ctx context.Context, query url.Values) (List[*core.Receipt], error) {
	return get[List[*core.Receipt]](ctx, c, "calls", query)
}

// Job gives the calls of a job, or the one call.
func (c *Client) Job(ctx context.Context, id string) (List[Call], error) {
	return get[List[Call]](ctx, c, "jobs/"+url.PathEscape(id), nil)
}

// Speed gives the measures and the prediction errors.
func (c *Client) Speed(ctx context.Context) (Speed, error) { return get[Speed](ctx, c, "speed", nil) }

// Usage sums a period; query is that of GET usage.
func (c *Client) Usage(ctx context.Context, query url.Values) (Usage, error) {
	return get[Usage](ctx, c, "usage", query)
}

// Models lists the models.
func (c *Client) Models(ctx context.Context) (List[Model], error) {
	return all[Model](ctx, c, "models")
}

// Offers lists the offers.
func (c *Client) Offers(ctx context.Context) (List[Offer], error) {
	return all[Offer](ctx, c, "offers")
}

// ListScripts lists the scripts.
func (c *Client) ListScripts(ctx context.Context) (List[Script], error) {
	return all[Script](ctx, c, "scripts")
}

// Keys lists the keys.
func (c *Client) Keys(ctx context.Context) (List[Key], error) { return all[Key](ctx, c, "keys") }

// all reads every page of a list.
func all[T any](ctx context.Context, c *Client, path string) (List[T], error) {
	whole := List[T]{Items: []T{}}
	query := url.Values{"limit": {fmt.Sprint(mostItems)}}
	for {
		l, err := get[List[T]](ctx, c, path, query)
		if err != nil {
			return whole, err
		}
		whole.Items = append(whole.Items, l.Items...)
		if l.Next == "" {
			return whole, nil
		}
		query.Set("next", l.Next)
	}
}

// PauseOffer keeps an offer out of the running.
func (c *Client) PauseOffer(ctx context.Context, id string) (Offer, error) {
	return post[Offer](ctx, c, "offers/"+url.PathEscape(id)+"/pause", nil)
}

// ResumeOffer ends every pause of an offer.
func (c *Client) ResumeOffer(ctx context.Context, id string) (Offer, error) {
	return post[Offer](ctx, c, "offers/"+url.PathEscape(id)+"/resume", nil)
}

// TestOffer makes a tiny call to an offer and gives its receipt.
func (c *Client) TestOffer(ctx context.Context, id string) (*core.Receipt, error) {
	return post[*core.Receipt](ctx, c, "offers/"+url.PathEscape(id)+"/test", nil)
}

// MakeKey makes a key of the fields of the file's object.
func (c *Client) MakeKey(ctx context.Context, fields map[string]any) (Key, error) {
	return post[Key](ctx, c, "keys", fields)
}

// SetKey changes fields of a key.
func (c *Client) SetKey(ctx context.Context, id core.KeyID, fields map[string]any) (Key, error) {
	return post[Key](ctx, c, "keys/"+url.PathEscape(string(id)), fields)
}

// RevokeKey ends a key.
func (c *Client) RevokeKey(ctx context.Context, id core.KeyID) (Key, error) {
	return post[Key](ctx, c, "keys/"+url.PathEscape(string(id))+"/revoke", nil)
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) (List[core.NodeStatus], error) {
	return all[core.NodeStatus](ctx, c, "nodes")
}

// EnrolNode invites a node; address, where not "", is what it dials.
func (c *Client) EnrolNode(ctx context.Context, name, owner, address string) (Invitation, error) {
	fields := map[string]string{"name": name}
	if owner != "" {
		fields["owner"] = owner
	}
	if address != "" {
		fields["address"] = address
	}
	return post[Invitation](ctx, c, "nodes", fields)
}

// RevokeNode ends a node.
func (c *Client) RevokeNode(ctx context.Context, name string) (core.NodeStatus, error) {
	return post[core.NodeStatus](ctx, c, "nodes/"+url.PathEscape(name)+"/revoke", nil)
}

// Apply puts the text of a file into force; no text: the server's own file.
func (c *Client) Apply(ctx context.Context, name string, text []byte) (v Applied, err error) {
	query := url.Values{}
	if name != "" {
		query.Set("name", name)
	}
	err = c.do(ctx, http.MethodPost, "apply", query, text, &v)
	return v, err
}

// Audit lists changes; query is that of GET audit.
func (c *Client) Audit(ctx context.Context, query url.Values) (List[Entry], error) {
	return get[List[Entry]](ctx, c, "audit", query)
}

// Status says how the server is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "status", nil)
}
