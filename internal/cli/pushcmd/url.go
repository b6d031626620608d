package pushcmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/outbound"
)

// pushURL is the URL of one check. Its token is a secret, which no error may have.
type pushURL struct {
	at     *url.URL
	shown  string // without the token
	token  string
	client *outbound.Client
}

// pushPath matches the end of the path of a push URL, with the token. A reverse proxy may add a prefix.
var pushPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/push/([A-Za-z0-9_-]{16,128})$`) })

// urlSender returns the function that sends a report to the URL.
func (p *push) urlSender() (sender, error) {
	u, err := parseURL(p.url)
	if err != nil {
		return nil, err
	}
	if u.client, err = p.agent.Outbound(); err != nil {
		return nil, err
	}
	return u.send, nil
}

// parseURL returns an error without the text of the URL.
func parseURL(text string) (*pushURL, error) {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" {
		return nil, command.Usage("", "--url: must be https://HOST/push/TOKEN")
	}
	if at.User != nil {
		return nil, command.Usage("", "--url: must not have a user or a password")
	}
	if at.RawQuery != "" || at.ForceQuery || at.Fragment != "" {
		return nil, command.Usage("", "--url: must not have a query or a fragment")
	}
	match := pushPath().FindStringSubmatch(at.EscapedPath())
	if match == nil {
		return nil, command.Usage("", "--url: must be https://HOST/push/TOKEN, with a token of 16 to 128 of A-Z, a-z, 0-9, - and _")
	}
	return &pushURL{at: at, shown: at.Scheme + "://" + at.Host + "/push/…", token: match[1]}, nil
}

// send sends a report with the message in the body, which proxies do not log.
func (u *pushURL) send(ctx context.Context, r client.PushReport) error {
	target := *u.at
	if r.Started {
		target = *u.at.JoinPath("start")
	} else {
		target.RawQuery = url.Values{"result": {r.Result}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(r.Message))
	if err != nil {
		return u.unanswered(err)
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	res, err := u.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return u.unanswered(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode/100 == 3:
		return u.status(res, " is a redirect, which is not followed")
	default:
		return u.status(res, "")
	}
}

// status returns the error of a response. The text of the response, which may repeat the token, is not part
// of it.
func (u *pushURL) status(res *http.Response, more string) error {
	return &client.StatusError{Server: u.shown, Status: res.StatusCode, Text: strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode))) + more}
}

func (u *pushURL) unanswered(err error) error {
	if text := err.Error(); strings.Contains(text, u.token) { // the server may have repeated it
		err = errors.New(strings.ReplaceAll(text, u.token, "…"))
	}
	return &client.UnansweredError{Server: u.shown, Err: err}
}

// failed returns the error of a report, with its exit code.
func (p *push) failed(err error) error {
	failed := remote.Failed(err)
	e, ok := errors.AsType[*command.Exit](failed)
	if !ok || p.url == "" {
		return failed
	}
	if s, ok := errors.AsType[*client.StatusError](err); ok && s.Status == http.StatusNotFound {
		e.Hint = "the agent has no check with the token of the URL"
	} else if e.Code == remote.ExitUnreachable {
		e.Hint = "" // about --server
	}
	return e
}
