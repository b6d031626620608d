package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/outbound"
)

const (
	// maxAnswer is the limit of a response, in bytes.
	maxAnswer = 64 << 20
	// pageItems is the number of items requested per page of a list.
	pageItems    = 500
	maxRedirects = 10
)

// Config configures a client. Server is required.
type Config struct {
	// Server is "unix:PATH" of the agent's socket, "HOST:PORT", or a URL. A name and a password in the URL
	// are the credentials of a user in the agent's web config.
	Server string
	// Name is the name of the agent in errors; "": the host of Server.
	Name string
	// Token is the agent's token, which actions over TCP need; "" for none.
	Token string
	// Transport sends requests to a URL, with its TLS settings; nil: a default transport without a proxy.
	Transport http.RoundTripper
	// Timeout limits the time for a response; 0 for no limit. It does not apply to Promote, TestNotification,
	// Reload and Report. For Stream it limits the time until the stream begins.
	Timeout time.Duration
}

// Client sends requests to a running agent. It is safe for concurrent use.
type Client struct {
	name    string // of the agent in errors
	local   bool   // over the agent's socket
	base    *url.URL
	http    *http.Client
	token   string
	timeout time.Duration
}

// ErrServer matches the error for an invalid [Config].Server.
var ErrServer = errors.New("must be unix:PATH, HOST:PORT, or a URL")

// New returns a client. It sends no request.
func New(cfg Config) (*Client, error) {
	transport := outbound.Transport(nil)
	c := &Client{name: cfg.Server, token: cfg.Token, timeout: cfg.Timeout, http: &http.Client{Transport: transport, CheckRedirect: keepToken}}
	if path, ok := strings.CutPrefix(cfg.Server, "unix:"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		c.base, c.local = &url.URL{Scheme: "http", Host: "localhost"}, true
		return c, nil
	}
	server := cfg.Server
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	var err error
	if c.base, err = url.Parse(server); err != nil || c.base.Host == "" || c.base.Scheme != "http" && c.base.Scheme != "https" {
		return nil, fmt.Errorf("%s: %w", cfg.Server[strings.LastIndexByte(cfg.Server, '@')+1:], ErrServer) // without a password
	}
	c.name = cmp.Or(cfg.Name, c.base.Host)
	if cfg.Transport != nil {
		c.http.Transport = cfg.Transport
	}
	return c, nil
}

// Name returns the address of the agent, for people.
func (c *Client) Name() string { return c.name }

// MayAct reports whether c can request actions: it uses the agent's socket, or has a token. It does not check
// the token with the agent.
func (c *Client) MayAct() bool { return c.local || c.token != "" }

// StatusError is a response of the agent that is not OK.
type StatusError struct {
	Server string
	Status int    // HTTP status code
	Text   string // the agent's error
}

// Error returns the agent's address and its error.
func (e *StatusError) Error() string { return e.Server + ": " + e.Text }

// UnansweredError is returned for a request without a response.
type UnansweredError struct {
	Server string
	Err    error
}

// Error returns the error with the agent's address.
func (e *UnansweredError) Error() string {
	if _, ok := errors.AsType[*net.OpError](e.Err); ok { // has the address in its text
		return e.Err.Error()
	}
	return e.Server + ": " + e.Err.Error()
}

// Unwrap returns the wrapped error.
func (e *UnansweredError) Unwrap() error { return e.Err }

// Filter selects probes; empty fields match everything.
type Filter struct {
	Namespace, Pod, Container, Kind string
	Handler                         string // such as "http", or the name of a plugin
	State                           string // one of [api.States]
	Result                          string // decided: "success", "failure" or "unknown"
}

// Pods decodes the pods with their status into list, a *v1.PodList.
func (c *Client) Pods(ctx context.Context, list any) error { return c.list(ctx, list, "pods") }

// Events decodes the newest events into list, a *v1.EventList.
func (c *Client) Events(ctx context.Context, list any) error { return c.list(ctx, list, "events") }

// Probes returns the probes that match f.
func (c *Client) Probes(ctx context.Context, f Filter) ([]api.ProbeStatus, error) {
	query := make(url.Values)
	for name, value := range map[string]string{
		"namespace": f.Namespace, "pod": f.Pod, "container": f.Container, "kind": f.Kind, "handler": f.Handler, "result": f.Result, "state": f.State,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var all []api.ProbeStatus
	err := c.pages(ctx, query, "probes", func(p *page) error {
		probes := make([]api.ProbeStatus, len(p.Items))
		for i, item := range p.Items {
			if err := json.Unmarshal(item, &probes[i]); err != nil {
				return err
			}
		}
		all = append(all, probes...)
		return nil
	})
	return all, err
}

// TargetFilter selects targets; empty fields match everything.
type TargetFilter struct {
	Group, Namespace, Pod string
	State                 string // "probed", "dropped" or "gone"
}

// Targets returns the targets of prober.yaml that match f, and their sources.
func (c *Client) Targets(ctx context.Context, f TargetFilter) (all api.TargetList, err error) {
	query := make(url.Values)
	for name, value := range map[string]string{"group": f.Group, "namespace": f.Namespace, "pod": f.Pod, "state": f.State} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err = c.pages(ctx, query, "targets", func(p *page) error {
		all.Sources = p.Sources
		for _, item := range p.Items {
			var t api.Target
			if err := json.Unmarshal(item, &t); err != nil {
				return err
			}
			all.Items = append(all.Items, t)
		}
		return nil
	})
	return all, err
}

// EndpointFilter selects endpoints and pushes; empty fields match everything.
type EndpointFilter struct{ Namespace, Name, Type, State string }

// Endpoints returns the endpoints and pushes of prober.yaml that match f.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (all []api.Endpoint, err error) {
	query := make(url.Values)
	for name, value := range map[string]string{"namespace": f.Namespace, "name": f.Name, "type": f.Type, "state": f.State} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err = c.pages(ctx, query, "endpoints", func(p *page) error {
		for _, item := range p.Items {
			var e api.Endpoint
			if err := json.Unmarshal(item, &e); err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	return all, err
}

// CertificateFilter selects the probes whose certificates are listed; empty fields match everything.
type CertificateFilter struct{ Namespace, Pod, Container, Kind string }

// Certificates returns the certificates that the probes that match f see, the first one to end first.
func (c *Client) Certificates(ctx context.Context, f CertificateFilter) (all []api.Certificate, err error) {
	query := make(url.Values)
	for name, value := range map[string]string{"namespace": f.Namespace, "pod": f.Pod, "container": f.Container, "kind": f.Kind} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err = c.pages(ctx, query, "certificates", func(p *page) error {
		for _, item := range p.Items {
			var one api.Certificate
			if err := json.Unmarshal(item, &one); err != nil {
				return err
			}
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

// IncidentFilter selects incidents; empty fields match everything.
type IncidentFilter struct {
	Namespace string // shows only the probes of this namespace
	State     string // [api.IncidentOpen] or [api.IncidentEnded]
}

// Incidents returns the incidents that match f, the most important first.
func (c *Client) Incidents(ctx context.Context, f IncidentFilter) ([]api.IncidentStatus, error) {
	query := make(url.Values)
	for name, value := range map[string]string{"namespace": f.Namespace, "state": f.State} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var list api.IncidentList
	err := c.do(ctx, http.MethodGet, query, &list, "api", "v1", "incidents")
	return list.Items, err
}

// Incident returns the incident with an ID.
func (c *Client) Incident(ctx context.Context, id string) (n api.IncidentStatus, err error) {
	err = c.do(ctx, http.MethodGet, nil, &n, "api", "v1", "incidents", id)
	return n, err
}

// Probe returns one probe with its history. Namespace, Pod, Container and Kind of f must be set; the other
// fields are ignored.
func (c *Client) Probe(ctx context.Context, f Filter) (status api.ProbeStatus, err error) {
	err = c.do(ctx, http.MethodGet, nil, &status, "api", "v1", "probes", f.Namespace, f.Pod, f.Container, f.Kind)
	return status, err
}

// page is a page of a list.
type page struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   api.ListMeta      `json:"metadata"`
	Items      []json.RawMessage `json:"items"`

	Sources []api.TargetSource `json:"sources,omitempty"` // only in lists of targets
}

// list requests all pages of a list of the Kubernetes API, and decodes them into a value.
func (c *Client) list(ctx context.Context, into any, name string) error {
	var all page
	err := c.pages(ctx, make(url.Values), name, func(p *page) error {
		all.Kind, all.APIVersion, all.Items = p.Kind, p.APIVersion, append(all.Items, p.Items...)
		return nil
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return c.undecodable(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.undecodable(err)
	}
	return nil
}

// pages requests a list page by page, and calls each with the pages.
func (c *Client) pages(ctx context.Context, query url.Values, name string, each func(*page) error) error {
	query.Set("limit", strconv.Itoa(pageItems))
	for {
		var p page
		if err := c.do(ctx, http.MethodGet, query, &p, "api", "v1", name); err != nil {
			return err
		}
		if err := each(&p); err != nil {
			return c.undecodable(err)
		}
		next := p.Metadata.Continue
		if next == "" {
			return nil
		}
		if len(p.Items) == 0 || next == query.Get("continue") { // it would never end
			return fmt.Errorf("%s: the list of %s makes no progress", c.name, name)
		}
		query.Set("continue", next)
	}
}

func (c *Client) undecodable(err error) error {
	return fmt.Errorf("%s: its response cannot be decoded: %w", c.name, err)
}

// Trigger requests an immediate attempt of a probe, and returns the state of the probe. Namespace, Pod,
// Container and Kind of probe must be set; the other fields are ignored. While its pod is replaced, two
// probes may match.
func (c *Client) Trigger(ctx context.Context, probe Filter) ([]api.ProbeStatus, error) {
	return c.act(ctx, probe, "trigger", nil)
}

// Pause stops the attempts of a probe for the duration in p, or until Resume. It replaces an earlier pause.
// The fields of probe are as for Trigger.
func (c *Client) Pause(ctx context.Context, probe Filter, p api.PauseRequest) ([]api.ProbeStatus, error) {
	query := make(url.Values)
	if p.For != "" {
		query.Set("for", p.For)
	}
	if p.Reason != "" {
		query.Set("reason", p.Reason)
	}
	return c.act(ctx, probe, "pause", query)
}

// Force gives a readiness probe the state in p, for the duration in p or until Resume. It replaces an earlier
// pause. The fields of probe are as for Trigger.
func (c *Client) Force(ctx context.Context, probe Filter, p api.ForceRequest) ([]api.ProbeStatus, error) {
	query := url.Values{"state": {p.State}}
	if p.For != "" {
		query.Set("for", p.For)
	}
	if p.Reason != "" {
		query.Set("reason", p.Reason)
	}
	return c.act(ctx, probe, "force", query)
}

// Resume ends a pause or a forced state.
func (c *Client) Resume(ctx context.Context, probe Filter) ([]api.ProbeStatus, error) {
	return c.act(ctx, probe, "resume", nil)
}

func (c *Client) act(ctx context.Context, p Filter, action string, query url.Values) ([]api.ProbeStatus, error) {
	var list api.ProbeList
	err := c.do(ctx, http.MethodPost, query, &list, "api", "v1", "probes", p.Namespace, p.Pod, p.Container, p.Kind, action)
	return list.Items, err
}

// Plugins returns the state of all plugins.
func (c *Client) Plugins(ctx context.Context) ([]api.PluginStatus, error) {
	var list api.PluginList
	err := c.do(ctx, http.MethodGet, nil, &list, "api", "v1", "plugins")
	return list.Items, err
}

// Promote replaces a plugin by its shadow, and returns the new status of the plugin.
func (c *Client) Promote(ctx context.Context, plugin string) (api.PluginStatus, error) {
	var status api.PluginStatus
	err := c.postWithoutTimeout(ctx, &status, "api", "v1", "plugins", plugin, "promote")
	return status, err
}

// Notifications returns the receivers of notifications with their status.
func (c *Client) Notifications(ctx context.Context) ([]api.Receiver, error) {
	var list api.NotificationList
	err := c.do(ctx, http.MethodGet, nil, &list, "api", "v1", "notifications")
	return list.Items, err
}

// TestNotification lets the agent send a test message to a receiver. It returns an error if the receiver does
// not accept the message.
func (c *Client) TestNotification(ctx context.Context, receiver string) (api.NotificationTest, error) {
	var result api.NotificationTest
	err := c.postWithoutTimeout(ctx, &result, "api", "v1", "notifications", receiver, "test")
	return result, err
}

// Reload lets the agent read its files again, and returns when they are applied or refused.
func (c *Client) Reload(ctx context.Context) error {
	return c.postWithoutTimeout(ctx, nil, "-", "reload")
}

// do sends a request for the path of segments, and decodes the response into a value if into is not nil.
func (c *Client) do(ctx context.Context, method string, query url.Values, into any, segments ...string) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.request(ctx, method, query, into, segments...)
}

// limited returns a context with the time limit of a response.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.timeout, c.noResponse())
}

// postWithoutTimeout is do for a POST that may wait for registries and compilers.
func (c *Client) postWithoutTimeout(ctx context.Context, into any, segments ...string) error {
	return c.request(ctx, http.MethodPost, nil, into, segments...)
}

func (c *Client) noResponse() error {
	return &UnansweredError{c.name, fmt.Errorf("no response within %v", c.timeout)}
}

func (c *Client) request(ctx context.Context, method string, query url.Values, into any, segments ...string) error {
	res, err := c.send(ctx, method, query, segments...)
	if err != nil {
		return err
	}
	return c.decode(ctx, res, into)
}

// decode decodes a response into a value if into is not nil, and closes its body.
func (c *Client) decode(ctx context.Context, res *http.Response, into any) error {
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.unanswered(ctx, err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return c.undecodable(err)
	}
	return nil
}

// send sends a request for the path of segments, and returns its response. A status other than OK is an
// error.
func (c *Client) send(ctx context.Context, method string, query url.Values, segments ...string) (*http.Response, error) {
	res, err := c.roundTrip(ctx, method, query, segments...)
	if err != nil {
		return nil, err
	}
	return c.checked(ctx, res)
}

// checked returns res, or the error of a status other than OK.
func (c *Client) checked(ctx context.Context, res *http.Response) (*http.Response, error) {
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	return nil, c.statusError(res, body)
}

// statusError returns the error of a response whose status is not OK.
func (c *Client) statusError(res *http.Response, body []byte) error {
	var failed api.Status
	_ = json.Unmarshal(body, &failed) // the response may come from another server
	//lint:ignore SA1019 Older agents send no Message.
	return &StatusError{Server: c.name, Status: res.StatusCode, Text: cmp.Or(failed.Message, failed.Error, res.Status)}
}

// roundTrip sends a request for the path of segments, and returns its response with any status.
func (c *Client) roundTrip(ctx context.Context, method string, query url.Values, segments ...string) (*http.Response, error) {
	req, err := c.newRequest(ctx, method, query, nil, segments...)
	if err != nil {
		return nil, err
	}
	return c.exchange(req)
}

// newRequest returns a request for the path of segments, with the credentials.
func (c *Client) newRequest(ctx context.Context, method string, query url.Values, body io.Reader, segments ...string) (*http.Request, error) {
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	target := c.base.JoinPath(segments...)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if c.token != "" {
		if c.base.User != nil { // Authorization has the name and the password
			req.Header.Set(tokenHeader, c.token)
		} else {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
	}
	return req, nil
}

// exchange sends a request, and returns its response with any status.
func (c *Client) exchange(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unanswered(req.Context(), err)
	}
	return res, nil
}

// tokenHeader is the header of the token if Authorization has a name and a password.
const tokenHeader = "X-Prober-Token"

// keepToken removes the token from redirects to another server, as [http.Client] does with Authorization.
func keepToken(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errors.New("too many redirects")
	}
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		req.Header.Del(tokenHeader)
	}
	return nil
}

// unanswered returns the error of a request without a response: the cause of its context, which HTTP/2 does
// not return, or err without the method and the URL.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if err = outbound.Failure(ctx, err); ctx.Err() != nil {
		return err
	}
	return &UnansweredError{c.name, err}
}
