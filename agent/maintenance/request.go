package maintenance

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/window"
	"github.com/daeace23/prober/plugin"
)

// Read returns the window that a request asks for: an [api.MaintenanceRequest] in its body, whose size the
// caller must limit. A window without a name gets one. By is not set. known returns the names of all receivers.
func Read(body io.Reader, now time.Time, known func() []string) (w Window, err error) {
	var asked api.MaintenanceRequest
	if err := pauses.ReadBody(body, &asked); err != nil {
		return w, err
	}
	w.Name, w.Uptime = asked.Name, config.UptimeExclude
	switch {
	case asked.Name == "":
		w.Name = "m-" + strings.ToLower(rand.Text()[:6])
	case !plugin.ValidName(asked.Name):
		return w, fmt.Errorf("name %.80q must be at most 63 lower-case letters, digits and dashes", asked.Name)
	}
	switch rule := config.UptimeRule(asked.Uptime); rule {
	case "":
	case config.UptimeExclude, config.UptimeCount:
		w.Uptime = rule
	default:
		return w, fmt.Errorf("uptime %.40q must be exclude or count", asked.Uptime)
	}
	if len(asked.Receivers) > 0 {
		if asked.Uptime != "" {
			return w, errors.New("uptime cannot be set with receivers: reports count the time of such a window as any other")
		}
		w.Uptime = config.UptimeCount
		if w.Receivers, err = receivers(asked.Receivers, known()); err != nil {
			return w, err
		}
	}
	if w.Reason, err = config.ParseReason(asked.Reason); err != nil {
		return w, fmt.Errorf("reason %w", err)
	}
	if w.Match, err = ParseMatch(asked.Match); err != nil {
		return w, err
	}
	w.Window, err = times(&asked, now)
	return w, err
}

// receivers returns the names of receivers of a request, sorted.
func receivers(asked, known []string) ([]string, error) {
	for _, name := range asked {
		if slices.Contains(known, name) {
			continue
		}
		if len(known) == 0 {
			return nil, fmt.Errorf("unknown receiver %.80q; none is configured", name)
		}
		return nil, fmt.Errorf("unknown receiver %.80q; known: %s", name, strings.Join(known, ", "))
	}
	return slices.Compact(slices.Sorted(slices.Values(asked))), nil
}

// times returns the span of a request.
func times(asked *api.MaintenanceRequest, now time.Time) (w window.Window, err error) {
	from, until := asked.From, asked.Until
	if from.IsZero() {
		from = now
	}
	if (asked.For == "") == until.IsZero() {
		return w, errors.New("exactly one of for and until is required")
	}
	if asked.For != "" {
		length, err := pauses.ParseFor(asked.For)
		if err != nil {
			return w, fmt.Errorf("for %w", err)
		}
		until = from.Add(length)
	}
	if until.Sub(from) > pauses.MaxFor || from.Sub(now) > pauses.MaxFor {
		return w, fmt.Errorf("the window must begin within %v and last at most as long", pauses.MaxFor)
	}
	return window.Once(from.Round(0), until.Round(0))
}
