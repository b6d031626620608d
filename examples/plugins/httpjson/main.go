// Httpjson is a plugin that gets a JSON document over HTTP and compares its values with
// thresholds.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

const maxBody = 512 << 10

func main() {}

func init() { sdk.Register(check{}) }

type check struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	if !c.Bool("tls", false) {
		for _, name := range []string{"serverName", "ca"} {
			if c.Has(name) {
				return fmt.Errorf("config.%s: is of no use without tls", name)
			}
		}
	}
	if ca := c.String("ca", ""); ca != "" && !strings.Contains(ca, "-----BEGIN CERTIFICATE-----") {
		return errors.New("config.ca: no certificate in PEM")
	}
	if _, err := headers(c); err != nil {
		return err
	}
	_, err := assertions(c)
	return err
}

// headers reads the headers of the request.
func headers(c *sdk.Config) (map[string]string, error) {
	all := map[string]string{"accept": "application/json"}
	if host := c.String("host", ""); host != "" {
		all["host"] = host
	}
	doc := value(c.JSON("headers"))
	if doc == nil {
		return all, nil
	}
	if doc.kind() != '{' {
		return nil, errors.New("config.headers must be an object of strings")
	}
	var err error
	doc.members(func(name string, v value) bool {
		switch text := v.text(); {
		case v.kind() != '"':
			err = fmt.Errorf("config.headers.%.40s: must be a string", name)
		case name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == ':' }):
			err = fmt.Errorf("config.headers: %.40q is not a header name", name)
		case strings.ContainsAny(text, "\r\n\x00"):
			err = fmt.Errorf("config.headers.%.40s: the value has more than one line", name)
		default:
			all[strings.ToLower(name)] = text
		}
		return err == nil
	})
	return all, err
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	all, err := assertions(r.Config)
	if err != nil {
		return probe.Outcome{}, err
	}
	req, err := newRequest(r.Config)
	if err != nil {
		return probe.Outcome{}, err
	}
	start := time.Now()
	status, body, err := get(ctx, req)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	out := judge(all, status, body)
	out.Metrics = append(out.Metrics, probe.Metric{Name: "get_seconds", Value: time.Since(start).Seconds(), Unit: "s"})
	return out, nil
}

// newRequest returns the request to the target, with a URL without a host.
func newRequest(c *sdk.Config) (sdk.HTTPRequest, error) {
	scheme := "http://"
	if c.Bool("tls", false) {
		scheme = "https://"
	}
	header, err := headers(c)
	return sdk.HTTPRequest{
		URL:    scheme + c.String("path", "/"),
		Header: header,
		TLS: sdk.TLSOptions{
			ServerName:         c.String("serverName", ""),
			InsecureSkipVerify: c.String("verify", "full") == "none",
			CA:                 c.String("ca", ""),
		},
	}, err
}

// get follows no redirects: the check is for this server.
func get(ctx context.Context, req sdk.HTTPRequest) (status int, body []byte, err error) {
	resp, err := sdk.HTTP(ctx, req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the body has more than %d bytes", maxBody)
	}
	return resp.Status, body, err
}

// judge returns the worst result of the assertions, with the messages of all assertions that
// have it.
func judge(all []assertion, status int, body []byte) probe.Outcome {
	if status < 200 || status > 299 {
		return sdk.Failuref("HTTP status %d", status)
	}
	if !sdk.ValidJSON(body) {
		return sdk.Failuref("the body is not JSON: %.60q", body)
	}
	out := probe.Outcome{Result: probe.Success}
	texts := make(map[probe.Result][]string)
	for i := range all {
		v := all[i].judge(body)
		texts[v.result] = append(texts[v.result], v.text)
		if v.result == probe.Failure || out.Result == probe.Success {
			out.Result = v.result
		}
		if v.number {
			m := probe.Metric{Name: "value", Value: v.metric}
			if len(all) > 1 {
				m.Labels = map[string]string{"assertion": all[i].name}
			}
			out.Metrics = append(out.Metrics, m)
		}
	}
	out.Output = strings.Join(texts[out.Result], "; ")
	return out
}
