package plugincmd

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
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/daeace23/prober/agent/access"

	"github.com/daeace23/prober/internal/cli/command"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// serverFlags say which agent a command asks.
type serverFlags struct{ server, tokenFile string }

func (s *serverFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.server, "server", "", "the agent: unix:PATH of its socket, HOST:PORT, or a URL (default: the socket of this host's agent)")
	f.StringVar(&s.tokenFile, "token-file", "", "file with the agent's token, for HOST:PORT and URLs")
}

// client asks a running agent.
type client struct {
	name  string // of the agent in errors
	base  *url.URL
	http  *http.Client
	token string // "": none
}

// newClient returns a client of the agent that the flags name, or of this host's.
func newClient(env *command.Env, s serverFlags) (*client, error) {
	server := s.server
	if server == "" {
		server = "unix:" + localSocket(env)
	}
	transport := &http.Transport{DisableKeepAlives: true} // no proxy gets the token
	c := &client{name: server, http: &http.Client{Transport: transport}}
	if path, ok := strings.CutPrefix(server, "unix:"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		c.base = &url.URL{Scheme: "http", Host: "localhost"}
		return c, nil
	}
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	var err error
	if c.base, err = url.Parse(server); err != nil || c.base.Host == "" {
		return nil, command.Usage("", "--server %s: want unix:PATH, HOST:PORT, or a URL", server)
	}
	c.name = c.base.Host
	if s.tokenFile == "" {
		return c, nil
	}
	token, err := access.TokenFile(s.tokenFile)
	if err == nil {
		c.token, err = token.Read()
	}
	if err != nil {
		return nil, command.Usage("", "--token-file: %w", err)
	}
	return c, nil
}

// localSocket returns the socket of the agent that this user runs, else of the one that root
// runs.
func localSocket(env *command.Env) string {
	own := access.DefaultSocket(env.LookupEnv)
	if _, err := os.Lstat(own); err != nil {
		if _, err := os.Lstat(access.SystemSocket); err == nil {
			return access.SystemSocket
		}
	}
	return cmp.Or(own, access.SystemSocket)
}

// post asks the agent to do what is at the path of segments, and decodes its answer.
func (c *client) post(ctx context.Context, into any, segments ...string) error {
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(segments...).String(), nil)
	if err != nil {
		return command.Usage("", "--server %s: %w", c.name, err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if err := c.ask(req, into); err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: hintOf(err)}
	}
	return nil
}

// statusError is an answer that is not 200 OK.
type statusError struct {
	status int
	text   string
}

// Error implements error.
func (e *statusError) Error() string { return e.text }

// hintOf says what may help where an agent did not do what it was asked.
func hintOf(err error) string {
	if _, away := errors.AsType[*net.OpError](err); away {
		return "--server says where the agent is: unix:PATH as its --socket has it, HOST:PORT, or a URL"
	}
	if s, ok := errors.AsType[*statusError](err); ok && s.status == http.StatusUnauthorized {
		return "--token-file has the agent's token; without --server the agent's socket is asked, which needs none"
	}
	return ""
}

// ask sends a request to the agent and reads its answer.
func (c *client) ask(req *http.Request, into any) error {
	res, err := c.http.Do(req)
	if err != nil {
		return unanswered(req, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return unanswered(req, err)
	}
	if res.StatusCode != http.StatusOK {
		var failed struct{ Error string }
		_ = json.Unmarshal(body, &failed) // another server may answer anything
		return &statusError{res.StatusCode, fmt.Sprintf("%s: %s", c.name, cmp.Or(failed.Error, res.Status))}
	}
	return json.Unmarshal(body, into)
}

// unanswered is why a request came to no answer. HTTP/2 says that it was ended, and not by what.
func unanswered(req *http.Request, err error) error {
	if ctx := req.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // which names the address
	}
	return err
}
