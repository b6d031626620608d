// Httpjson is a plugin that gets a JSON document over HTTP and holds one of its fields
// against thresholds.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/sdkhttp"
)

const maxBody = 512 << 10

func main() {}

func init() { sdk.Register(check{}) }

type check struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	for _, level := range []string{"fail", "warn"} {
		low, high := c.Float(level+".min", 0), c.Float(level+".max", 0)
		if c.Has(level+".min") && c.Has(level+".max") && low > high {
			return fmt.Errorf("config.%s: min %v is above max %v: nothing could be in between", level, low, high)
		}
	}
	return nil
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	start := time.Now()
	status, body, err := get(ctx, r)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	out := judge(r.Config, status, body)
	out.Metrics = append(out.Metrics, probe.Metric{Name: "get_seconds", Value: time.Since(start).Seconds(), Unit: "s"})
	return out, nil
}

func get(ctx context.Context, r *sdk.Request) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+r.Config.String("path", "/"), nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Host = r.Config.String("host", "")
	client := http.Client{
		Transport: sdkhttp.Transport(),
		// A redirect is an answer: the check is of this server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the body has more than %d bytes", maxBody)
	}
	return resp.StatusCode, body, err
}

// judge is the verdict on an answer.
func judge(c *sdk.Config, status int, body []byte) probe.Outcome {
	if status < 200 || status > 299 {
		return sdk.Failuref("HTTP status %d", status)
	}
	if !sdk.ValidJSON(body) {
		return sdk.Failuref("the body is not JSON: %.60q", body)
	}
	field := c.String("field", "")
	value, ok := sdk.Lookup(body, field)
	if !ok {
		return sdk.Failuref("%s: the answer has no such field", field)
	}
	out := sdk.Successf("%s is %.200s", field, value)
	for _, level := range []struct {
		name   string
		result probe.Result
	}{{"fail", probe.Failure}, {"warn", probe.Warning}} {
		if fault := threshold(c, level.name, value); fault != "" {
			out = probe.Outcome{Result: level.result, Output: fmt.Sprintf("%s is %.200s, %s", field, value, fault)}
			break
		}
	}
	if number, err := strconv.ParseFloat(value, 64); err == nil {
		out.Metrics = []probe.Metric{{Name: "value", Value: number}}
	}
	return out
}

// threshold says how value breaks the thresholds of a level, or "".
func threshold(c *sdk.Config, level, value string) string {
	if equals := c.String(level+".equals", ""); c.Has(level+".equals") && value != equals {
		return "not " + equals
	}
	hasMin, hasMax := c.Has(level+".min"), c.Has(level+".max")
	if !hasMin && !hasMax {
		return ""
	}
	number, err := strconv.ParseFloat(value, 64)
	low, high := c.Float(level+".min", 0), c.Float(level+".max", 0)
	switch {
	case err != nil || strings.EqualFold(value, "nan"):
		return "no number"
	case hasMin && number < low:
		return fmt.Sprintf("below %v", low)
	case hasMax && number > high:
		return fmt.Sprintf("above %v", high)
	default:
		return ""
	}
}
