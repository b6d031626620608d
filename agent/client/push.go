package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// PushReport is a report to a check of the section push in prober.yaml.
type PushReport struct {
	// Started reports that a run has begun, whose result will follow. The other fields are ignored.
	Started bool
	// Result is "success", "warning", "failure" or "unknown"; "" means success.
	Result string
	// Message describes the result, in at most 10 KiB.
	Message string
}

// Push reports to the check called name, which must not be empty.
func (c *Client) Push(ctx context.Context, name string, r PushReport) error {
	query, message := url.Values{"started": {"true"}}, ""
	if !r.Started {
		query, message = make(url.Values), r.Message
		if r.Result != "" {
			query.Set("result", r.Result)
		}
	}
	return c.post(ctx, query, message, "api", "v1", "push", name)
}

// PushLines reports several results, a line each: [HOST<TAB>]NAME<TAB>CODE<TAB>OUTPUT, with the exit codes of
// Nagios. If a line is wrong, none is stored, and the [StatusError] names the line.
func (c *Client) PushLines(ctx context.Context, lines string) error {
	return c.post(ctx, nil, lines, "api", "v1", "push")
}

// post sends text to the path of segments. The response must be JSON, so that a page of another server is an
// error.
func (c *Client) post(ctx context.Context, query url.Values, text string, segments ...string) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	req, err := c.newRequest(ctx, http.MethodPost, query, strings.NewReader(text), segments...)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	res, err := c.exchange(req)
	if err != nil {
		return err
	}
	if res, err = c.checked(ctx, res); err != nil {
		return err
	}
	return c.decode(ctx, res, new(any))
}
