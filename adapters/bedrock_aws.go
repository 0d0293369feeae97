package adapters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"headway/core"
)

// AWS makes requests to Amazon Bedrock with what a provider's settings give, else
// with credentials from the usual AWS places: environment, shared files, SSO, web
// identity, container and machine roles (SPEC §24). Nothing is looked for before
// a call needs it, and what is found is kept and renewed by AWS's SDK.
type AWS struct {
	clock  core.Clock
	signer *v4.Signer

	mu     sync.Mutex
	chains map[string]*awsChain // by the region that a provider names, "" for none
}

// NewAWS makes one, which all providers share.
func NewAWS(clock core.Clock) *AWS {
	return &AWS{clock: clock, signer: v4.NewSigner(), chains: map[string]*awsChain{}}
}

// awsChain is what the usual places say for one region.
type awsChain struct {
	mu     sync.Mutex
	loaded bool
	config aws.Config
	bearer core.Secret

	err    error // of the last try
	failed time.Time
}

const (
	// awsTime is how long a call waits for credentials.
	awsTime = 20 * time.Second
	// awsAgain is how long a failure is believed: a machine without a role would
	// be asked for one with every call.
	awsAgain = 10 * time.Second
)

// awsAccess is what a request to a provider needs.
type awsAccess struct {
	region      string
	bearer      core.Secret // an API key of Bedrock's, in the place of a signature
	credentials aws.Credentials
}

// request makes a request for a model's action ("invoke"). The client's query and
// the headers of Anthropic's API mean nothing there and may break the signature.
func (a *AWS) request(ctx context.Context, head core.RequestHead, offer *core.Offer, action string, body []byte) (*http.Request, error) {
	p := *offer.Provider
	access, err := a.access(ctx, &p)
	if err != nil {
		return nil, err
	}
	if p.BaseURL == "" {
		if access.region == "" {
			return nil, noRegion(&p)
		}
		p.BaseURL = "https://bedrock-runtime." + access.region + ".amazonaws.com"
	}
	p.APIKey = access.bearer
	to := *offer
	to.Provider = &p
	head.Query = nil
	head.Header = http.Header{"Traceparent": head.Header["Traceparent"]}
	// A model may be an ARN. AWS's own clients escape its colons and slashes.
	model := strings.ReplaceAll(url.PathEscape(upstreamModel(offer)), ":", "%3A")
	req, err := outgoing(ctx, head, &to, "/model/"+model+"/"+action, "Authorization", "Bearer ", body)
	if err != nil {
		return nil, err
	}
	req.Header.Del("Anthropic-Beta") // of the provider's own headers: it is in the body
	if req.Header.Get("Authorization") != "" {
		return req, nil
	}
	if access.region == "" {
		return nil, noRegion(&p)
	}
	hash := sha256.Sum256(body)
	if err := a.signer.SignHTTP(ctx, access.credentials, req, hex.EncodeToString(hash[:]), "bedrock", access.region, a.clock()); err != nil {
		return nil, core.Errorf(core.Internal, "provider %s: the request cannot be signed", p.ID)
	}
	return req, nil
}

func noRegion(p *core.Provider) error {
	err := core.Errorf(core.Internal, "provider %s: no AWS region is known", p.ID)
	err.Hint = "set region"
	return err
}

// access gathers what a provider's calls are made with.
func (a *AWS) access(ctx context.Context, p *core.Provider) (awsAccess, error) {
	own := awsAccess{region: p.Region, bearer: p.APIKey, credentials: aws.Credentials{
		AccessKeyID: p.AccessKeyID, SecretAccessKey: p.SecretKey.Reveal(), SessionToken: p.SessionToken.Reveal()}}
	given := !p.APIKey.Empty() || own.credentials.HasKeys() || hasCredential(p.Headers)
	if given && (own.region != "" || p.BaseURL != "" && !own.credentials.HasKeys()) {
		return own, nil
	}
	found, err := a.chain(p.Region).find(ctx, p.Region, a.clock(), !given)
	if err != nil {
		failed := core.Errorf(core.Internal, "provider %s: no AWS credentials were found", p.ID)
		failed.Hint = "set access_key_id and secret_access_key, or api_key, or AWS_PROFILE where the server runs, or give the machine a role"
		if ctx.Err() == nil {
			failed.Code = core.NoCredential
		}
		failed.Err = err
		return awsAccess{}, failed
	}
	if given {
		own.region = found.region
		return own, nil
	}
	return found, nil
}

func (a *AWS) chain(region string) *awsChain {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.chains[region]
	if c == nil {
		c = &awsChain{}
		a.chains[region] = c
	}
	return c
}

// find gives what the usual places say, credentials only where they are needed:
// these may take a call to AWS, which all calls that wait for it share.
func (c *awsChain) find(ctx context.Context, region string, now time.Time, credentials bool) (awsAccess, error) {
	if err := c.load(ctx, region, now); err != nil {
		return awsAccess{}, err
	}
	found := awsAccess{region: c.config.Region}
	if !credentials {
		return found, nil
	}
	if found.bearer = c.bearer; !found.bearer.Empty() {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, awsTime)
	defer cancel()
	var err error
	if found.credentials, err = c.config.Credentials.Retrieve(ctx); err != nil && ctx.Err() != context.Canceled {
		c.mu.Lock()
		c.err, c.failed = err, now
		c.mu.Unlock()
	}
	return found, err
}

// load reads environment and files, once.
func (c *awsChain) load(ctx context.Context, region string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil && now.Sub(c.failed) < awsAgain {
		return c.err
	}
	if c.err = nil; c.loaded {
		return nil
	}
	var options []func(*config.LoadOptions) error
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	options = append(options, config.WithLogger(logging.Nop{})) // it would write to the screen, in words of its own
	loaded, err := config.LoadDefaultConfig(context.WithoutCancel(ctx), options...)
	if err != nil {
		c.err, c.failed = err, now
		return err
	}
	c.config, c.bearer, c.loaded = loaded, core.NewSecret(os.Getenv("AWS_BEARER_TOKEN_BEDROCK")), true
	return nil
}
