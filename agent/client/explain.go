package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/daeace23/prober/agent/api"
)

// Explain returns an explanation of the decided result of a probe. The fields of p are as for Trigger.
func (c *Client) Explain(ctx context.Context, p Filter) (api.Explanation, error) {
	var x api.Explanation
	err := c.do(ctx, http.MethodGet, nil, &x, "api", "v1", "probes", p.Namespace, p.Pod, p.Container, p.Kind, "explain")
	return x, err
}

// Durations returns percentiles of the durations of the last 24 hours. The fields of p are as for Trigger. The error is a
// [*StatusError] with status 404 if the agent keeps no history, or does not know percentiles.
func (c *Client) Durations(ctx context.Context, p Filter) (api.ProbeDurations, error) {
	var d api.ProbeDurations
	err := c.do(ctx, http.MethodGet, nil, &d, "api", "v1", "probes", p.Namespace, p.Pod, p.Container, p.Kind, "durations")
	return d, err
}

// Check is a line of /readyz?verbose.
type Check struct {
	Name string // such as "reload" or "plugin redis"
	Mark string // "+" passed, "-" failed, "!" a warning
	Text string
}

// Checks returns the checks of /readyz, also if the agent is not ready.
func (c *Client) Checks(ctx context.Context) ([]Check, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	res, err := c.roundTrip(ctx, http.MethodGet, url.Values{"verbose": {""}}, "readyz")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable {
		return nil, c.statusError(res, body)
	}
	return parseChecks(string(body)), nil
}

// parseChecks parses lines such as "[!]plugin redis a text". Only the names of plugins contain a space.
func parseChecks(text string) (checks []Check) {
	for line := range strings.Lines(text) {
		mark, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "["), "]")
		if !ok || !strings.HasPrefix(line, "[") {
			continue
		}
		name, text, _ := strings.Cut(rest, " ")
		if name == "plugin" {
			second, more, _ := strings.Cut(text, " ")
			name, text = name+" "+second, more
		}
		checks = append(checks, Check{Name: name, Mark: mark, Text: text})
	}
	return checks
}
