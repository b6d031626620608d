package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
)

// maxEvent is the limit of one event of a stream, in bytes.
const maxEvent = 16 << 20

// Stream calls f with each event of the agent's stream, until f returns an error or the stream ends. Then it
// returns that error, the cause of ctx, or nil if the agent has ended the stream. name is "probe", "pod" or
// "event". data is JSON, and valid until f returns. The stream begins with the present state.
func (c *Client) Stream(ctx context.Context, f func(name string, data []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := func() bool { return true }
	if c.timeout > 0 {
		begun = time.AfterFunc(c.timeout, func() { cancel(c.noResponse()) }).Stop
	}
	res, err := c.send(ctx, http.MethodGet, nil, "api", "v1", "stream")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	begun()
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
	case errors.Is(err, bufio.ErrTooLong):
		return c.undecodable(err)
	case err != nil:
		return c.unanswered(ctx, err)
	default:
		return nil
	}
}
