package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

const (
	maxAlerts = 100
	// longFailing is how long a receiver must fail before /readyz reports it.
	longFailing = time.Minute
)

// Status returns the status of the receivers, in the order of the configuration.
func (n *Notifier) Status() api.NotificationList {
	list := api.NotificationList{Items: []api.Receiver{}}
	for _, r := range n.receiverList() {
		list.Items = append(list.Items, r.status())
	}
	return list
}

func (r *receiver) status() api.Receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, b := &r.health, r.book
	s := api.Receiver{
		Name: r.spec.Name, Type: r.send.kind(), State: "ok", FailingSince: h.failing.UTC(), Error: h.err, LastSent: h.lastSent.UTC(), Answer: h.answer,
		Delivered: r.counts.ok.Load(), Failed: r.counts.errors.Load(), Refused: r.counts.refused.Load(), Dropped: r.counts.dropped.Load(), Alerts: []api.Alert{},
	}
	switch {
	case h.refused:
		s.State = "refused"
	case !h.failing.IsZero():
		s.State = "failing"
	case h.lastSent.IsZero():
		s.State = "unused"
	}
	s.Pending, s.Open = b.pending()
	if b.isQuiet(time.Now()) {
		s.QuietUntil = b.quietUntil.UTC()
	}
	items := make([]*item, 0, b.items.len())
	for it := range b.items.each() {
		items = append(items, it)
	}
	slices.SortFunc(items, func(x, y *item) int { return cmp.Or(y.since.Compare(x.since), x.compare(&y.Key)) })
	for _, it := range items[:min(len(items), maxAlerts)] {
		reason, text := clean(r.sender.newest(it))
		s.Alerts = append(s.Alerts, api.Alert{
			Namespace: it.Namespace, Pod: it.Pod, Container: it.Container, Kind: it.Kind.String(), Handler: it.handler, Target: it.target, Labels: format.Labels(it.labels), State: it.state.String(),
			Told: it.told.String(), Since: it.since.UTC(), Reason: reason, Text: text, Maintenance: it.held && it.state != quiet,
		})
	}
	return s
}

// ErrNoReceiver is returned for a receiver that is not configured.
var ErrNoReceiver = errors.New("there is no such receiver")

// Test sends a test message to a receiver, and returns its answer. After a success, pending messages are due
// at once, also refused ones.
func (n *Notifier) Test(ctx context.Context, name string) (api.NotificationTest, error) {
	all := n.receiverList()
	i := slices.IndexFunc(all, func(r *receiver) bool { return r.spec.Name == name })
	if i < 0 {
		return api.NotificationTest{}, ErrNoReceiver
	}
	r, started := all[i], time.Now()
	m := r.sender.test(name, started)
	answer, err := r.send.send(ctx, m)
	if err == nil && !r.send.mergeable() { // a test must not leave an incident open
		m.Status = format.Resolved
		_, err = r.send.send(ctx, m)
	}
	t := api.NotificationTest{Receiver: name, Delivered: err == nil, Answer: answer, DurationSeconds: time.Since(started).Seconds()}
	if err != nil {
		t.Answer = err.Error()
		return t, nil
	}
	r.retry()
	return t, nil
}

// Names returns the names of the receivers.
func (n *Notifier) Names() (names []string) {
	for _, r := range n.receiverList() {
		names = append(names, r.spec.Name)
	}
	return names
}

// Trouble returns the receivers that have failed for long, with the error, and the error of the state file.
func (n *Notifier) Trouble(now time.Time) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, r := range n.receiverList() {
			r.mu.Lock()
			h := r.health
			r.mu.Unlock()
			if h.failing.IsZero() || !h.refused && now.Sub(h.failing) < longFailing {
				continue
			}
			if !yield("receiver "+r.spec.Name, fmt.Sprintf("not delivered since %s: %s", h.failing.UTC().Format(time.RFC3339), h.err)) {
				return
			}
		}
		n.saver.mu.Lock()
		err := n.saver.err
		n.saver.mu.Unlock()
		if err != nil {
			yield("notifications", "their state cannot be saved: "+err.Error())
		}
	}
}

// Counts returns the counts of the receivers, for metrics.
func (n *Notifier) Counts() map[string]agentmetrics.NotificationCounts {
	all := make(map[string]agentmetrics.NotificationCounts)
	for _, r := range n.receiverList() {
		r.mu.Lock()
		pending, open := r.book.pending()
		r.mu.Unlock()
		all[r.spec.Name] = agentmetrics.NotificationCounts{
			OK: r.counts.ok.Load(), Errors: r.counts.errors.Load(), Refused: r.counts.refused.Load(), Dropped: r.counts.dropped.Load(), Pending: pending, Open: open,
		}
	}
	return all
}

// example returns a message with all fields, to check templates.
func example(spec *config.Receiver, external string) *format.Message {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	probes := []*item{
		{Key: Key{Namespace: "default", Pod: "web", Container: "app", Kind: probe.Readiness}, handler: "http", target: "GET https://shop.example/healthz", told: quiet, worst: quiet, cause: states.Cause{Reason: "http_status", Text: `answer "<500>"`}, since: now.Add(-time.Minute)},
		{Key: Key{Namespace: "default", Pod: "db", Container: "app", Kind: probe.Liveness}, handler: "tcp", target: "tcp 10.0.0.7:5432", state: quiet, worst: quiet, since: now.Add(-time.Hour), at: now},
	}
	probes[0].state = states.Failure
	groups := []plan{{group: &group{id: groupID(spec.Name, "example"), labels: map[string]string{"namespace": "default"}}}}
	return newSender(spec, external, nil).message(spec.Name, groups, probes, now)
}

// fieldError returns err with its position in the file.
func fieldError(file string, r *config.Receiver, err error) error {
	field := "template"
	if r.Webhook.TemplateFile != "" {
		field = "templateFile"
	}
	return &plugin.FieldError{File: file, Line: r.Webhook.TemplateLine, Field: r.Path + ".webhook." + field, Err: err}
}
