package pushcmd

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/pace"
)

// sender sends a report to one check, in one attempt.
type sender func(ctx context.Context, r client.PushReport) error

// The pause between two attempts doubles from firstPause to maxPause.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 15 * time.Second
)

// deliver calls send until it succeeds, fails for good, or has failed for the time of retry. The end of
// patience ends the pauses, and so all but the first attempt. It returns the last error.
func deliver(ctx, patience context.Context, retry time.Duration, send func(ctx context.Context) error) error {
	end := time.Now().Add(retry)
	for n := 0; ; n++ {
		err := send(ctx)
		left := time.Until(end)
		if err == nil || !temporary(err) || left <= 0 {
			return err
		}
		pause := pace.Doubled(firstPause, maxPause, n)
		pace.Wait(patience, nil, min(pace.Jitter(pause/2, pause), left))
		if patience.Err() != nil {
			return err
		}
	}
}

// temporary reports whether the agent may accept the report later.
func temporary(err error) bool {
	if s, ok := errors.AsType[*client.StatusError](err); ok {
		return s.Status >= http.StatusInternalServerError || s.Status == http.StatusTooManyRequests
	}
	_, ok := errors.AsType[*client.UnansweredError](err)
	return ok
}
