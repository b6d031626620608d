package watch

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/pace"
)

// Lines writes a line to out for each probe, and then for each change of a state or of a pause,
// until ctx ends or out cannot be written. It reports a lost connection on errs.
func Lines(ctx context.Context, cfg *Config, out, errs io.Writer) error {
	seen := make(map[string]string)
	var failed error
	wait := firstWait
	for ctx.Err() == nil {
		following, stop := context.WithCancel(ctx)
		err := cfg.Follow(following, func() { wait = firstWait }, func(c Change) {
			if failed == nil {
				if failed = writeLine(out, &c, seen); failed != nil {
					stop()
				}
			}
		})
		stop()
		if failed != nil || ctx.Err() != nil {
			return failed
		}
		why := "the agent has closed the stream"
		if err != nil {
			why = explain.OneLine(err.Error())
		}
		fmt.Fprintf(errs, "prober: reconnecting: %s\n", why)
		if pace.Wait(ctx, nil, wait); ctx.Err() != nil {
			return nil
		}
		wait = min(2*wait, maxWait)
	}
	return nil
}

// writeLine writes a change, unless the last line about the probe was the same.
func writeLine(out io.Writer, c *Change, seen map[string]string) error {
	p, key, at := &c.Probe, id(&c.Probe), time.Now()
	state := []string{p.Now()}
	switch {
	case c.Removed:
		if _, known := seen[key]; !known {
			return nil
		}
		delete(seen, key)
		state = []string{"removed"}
	case p.Paused:
		state = append(state, message(p, time.RFC3339, time.UTC))
	case p.Maintenance != nil:
		state = append(state, p.Maintenance.Text(time.RFC3339, time.UTC))
	case p.Last != nil:
		at = p.Last.Time
		if p.Last.Result != p.Now() {
			state = append(state, "last "+p.Last.Result)
		}
	}
	text := explain.OneLine(strings.Join(state, ", "))
	if !c.Removed {
		if seen[key] == text {
			return nil
		}
		if len(seen) >= maxRows {
			clear(seen)
		}
		seen[key] = text
	}
	if said := said(p); !c.Removed && said != "" {
		text += ": " + said
	}
	name := explain.OneLine(p.Namespace + "/" + p.Pod + "/" + p.Container + " " + p.Kind)
	_, err := fmt.Fprintf(out, "%s %s %s\n", at.UTC().Format(time.RFC3339), name, text)
	return err
}

// said returns the message of the last tick on one line; "" for a paused probe.
func said(p *api.ProbeStatus) string {
	if p.Paused || p.Last == nil {
		return ""
	}
	return explain.OneLine(message(p, time.RFC3339, time.UTC))
}
