package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// sender has the parameters that the messages of an agent share.
type sender struct {
	host, externalURL string
	zone              *time.Location // of the times in messages
	most              int            // probes listed in a message; 0: the default
	// current returns the present state of a probe; nil: messages have the state of the book.
	current func(podUID, container string, kind probe.Kind) states.Status
}

func newSender(spec *config.Receiver, externalURL string, current func(podUID, container string, kind probe.Kind) states.Status) *sender {
	s := &sender{host: hostName(), externalURL: externalURL, zone: cmp.Or(spec.TimeZone, time.UTC), current: current}
	if spec.Webhook != nil {
		s.most = spec.Webhook.Format.Rules().Probes
	}
	return s
}

func hostName() string {
	host, _ := os.Hostname()
	return format.Clean(host, format.MaxName)
}

// time returns a time as messages have it.
func (s *sender) time(t time.Time) time.Time { return t.In(s.zone).Truncate(time.Millisecond) }

// newest returns the cause of the newest attempt of an incident's probe.
func (s *sender) newest(it *item) states.Cause {
	if s.current != nil && it.state != quiet {
		if now := s.current(it.uid, it.Container, it.Kind); now.Forced == worker.Open && now.Cause != (states.Cause{}) {
			now.Text = clipText(now.Text)
			return now.Cause
		}
	}
	return it.cause
}

// clean returns the reason and the text of a cause, safe for a message.
func clean(c states.Cause) (reason, text string) {
	return format.Clean(c.Reason, format.MaxName), format.Clean(c.Text, format.MaxText)
}

// groupID returns the ID of a group. It depends on names only, so that it is stable across restarts.
func groupID(receiver, group string) string {
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(strings.Join([]string{host, receiver, group}, "\x00")))
	return "prober-" + hex.EncodeToString(sum[:12])
}

// message returns the message about items of groups; there must be at least one group.
func (s *sender) message(receiver string, groups []plan, items []*item, now time.Time) *format.Message {
	m := &format.Message{
		Version: format.Version, Receiver: receiver, ID: groups[0].id, Status: format.Resolved, Repeated: true, Host: s.host, Time: s.time(now),
		Group: make(map[string]string), Probes: []format.Probe{}, URL: s.externalURL, Most: s.most,
	}
	if len(groups) == 1 {
		for name, value := range groups[0].labels {
			m.Group[name] = format.Clean(value, format.MaxName)
		}
	} else {
		m.ID = groupID(receiver, "several")
	}
	for _, it := range items {
		p := s.probe(it, now)
		m.Add(&p)
		m.Repeated = m.Repeated && it.state == it.told && !it.owed && !it.causeChanged()
	}
	m.SetTitle()
	return m
}

func (s *sender) probe(it *item, now time.Time) format.Probe {
	p := format.Probe{
		Namespace: format.Clean(it.Namespace, format.MaxName), Pod: format.Clean(it.Pod, format.MaxName), Container: format.Clean(it.Container, format.MaxName), Kind: it.Kind.String(),
		Handler: format.Clean(it.handler, format.MaxName), Target: format.Clean(it.target, format.MaxText), Status: format.Failing, State: it.state.String(), New: it.told == quiet, Since: s.time(it.since),
	}
	p.Reason, p.Text = clean(it.cause)
	p.Labels = format.Labels(it.labels)
	if f := it.flaps; f.count > 0 {
		p.Flaps = &format.Flaps{Count: f.count, Since: s.time(f.first), State: f.now.String()}
	}
	if it.times > 0 {
		p.Times = it.times + 1
	}
	if it.state != quiet && severity(it.worst) > severity(it.state) {
		p.Worst = it.worst.String()
	}
	end := now
	if it.state == quiet {
		end, p.Ended, p.State, p.Status = it.at, s.time(it.at), endedState(it).String(), format.Resolved
		if it.removed {
			p.Status = format.Removed
		}
	}
	p.DurationSeconds = int64(max(0, end.Sub(it.since)) / time.Second)
	where := fmt.Sprintf("-n %s %s/%s %s", p.Namespace, p.Pod, p.Container, p.Kind)
	p.Explain, p.Pause = "prober explain "+where, "prober pause "+where+" --for 1h"
	if s.externalURL != "" {
		p.URL = s.externalURL + "/#/probe"
		for _, part := range []string{p.Namespace, p.Pod, p.Container, p.Kind} {
			p.URL += "/" + strings.ReplaceAll(url.QueryEscape(part), "+", "%20")
		}
	}
	return p
}

// endedState returns the worst state of an incident that has ended.
func endedState(it *item) states.State {
	if worst := worse(it.worst, it.told); worst != quiet {
		return worst
	}
	return states.Failure
}

// test returns a test message for a receiver.
func (s *sender) test(receiver string, now time.Time) *format.Message {
	return &format.Message{
		Version: format.Version, Receiver: receiver, ID: groupID(receiver, "test"), Status: format.Test, Title: "test message of prober to " + receiver,
		Host: s.host, Time: s.time(now), Group: map[string]string{}, Probes: []format.Probe{}, URL: s.externalURL,
	}
}
