package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/daeace23/prober/agent/api"
)

// maxEvent is the limit of one event of a stream, in bytes.
const maxEvent = 16 << 20

// Stream calls f with each event of the agent's stream, until f returns an error or the stream ends:
// then it returns that error, the cause of ctx, or nil if the agent has ended it. name is "probe",
// "pod" or "event", and data JSON, which is valid until f returns. The stream begins with the
// present state.
func (c *Client) Stream(ctx context.Context, f func(name string, data []byte) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("api", "v1", "stream").String(), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return unanswered(req, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		var failed api.Error
		_ = json.Unmarshal(body, &failed)
		return &StatusError{Server: c.name, Status: res.StatusCode, Text: failed.Error}
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxEvent)
	name := ""
	for lines.Scan() {
		line := lines.Bytes()
		if event, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(event)
		} else if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if err := f(name, data); err != nil {
				return err
			}
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, bufio.ErrTooLong):
		return c.undecodable(err)
	default:
		return err
	}
}
