package testfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/probe"
)

// Answer is a plugin's answer to a case.
type Answer struct {
	Outcome   probe.Outcome
	Err       error
	BadConfig bool // the plugin refused its config with Err
	Virtual   time.Duration
	Memory    uint64
	Denied    []string
	Kept      map[string][]byte
	Faults    []string // actions that the case does not foresee
	Stuck     string   // the element of Faults about a guest that did not end
	Trace     []string
	States    []string // of the peers at the end of an attempt that hung
}

// Result returns the result in the form of a test file.
func (a *Answer) Result() string {
	switch {
	case a.BadConfig:
		return fmt.Sprintf("error(%s)", ReasonConfig)
	case a.Err != nil:
		return fmt.Sprintf("error(%s)", probe.ReasonOf(a.Err))
	default:
		return a.Outcome.Result.String()
	}
}

// Message returns the output, or the error.
func (a *Answer) Message() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return a.Outcome.Output
}

// Hung reports whether the attempt ended at its deadline.
func (a *Answer) Hung() bool {
	return a.Stuck != "" || a.Err == nil && a.Outcome.Reason == probe.ReasonDeadline
}

// comparison collects the differing lines of the wanted and the actual answer.
type comparison struct{ want, got []string }

func (c *comparison) add(name, want, got string, equal bool) {
	if equal {
		got = want
	}
	c.want, c.got = append(c.want, name+": "+want), append(c.got, name+": "+got)
}

// Compare returns a diff of the wanted answer and got, or "" if they agree.
func (w *Want) Compare(got *Answer) string {
	var c comparison
	c.add("result", w.Result, got.Result(), w.Result == got.Result())
	if w.Message.Source != "" {
		c.add("message", w.Message.Source, got.Message(), w.Message.Matches(got.Message()))
	} else if w.Result != got.Result() {
		c.got = append(c.got, "message: "+got.Message())
	}
	for _, name := range slices.Sorted(maps.Keys(w.Metrics)) {
		b := w.Metrics[name]
		value, ok := got.metric(name)
		text := "(none)"
		if ok {
			text = strconv.FormatFloat(value, 'g', -1, 64)
		}
		c.add("metrics."+name, b.source, text, ok && b.contain(value))
	}
	if w.Denied != nil {
		want, denied, equal := w.compareDenied(got.Denied)
		c.add("denied", want, denied, equal)
	}
	if w.KV != nil {
		want, kept := fmt.Sprintf("%q", w.KV), fmt.Sprintf("%q", got.Kept)
		c.add("kv", want, kept, want == kept)
	}
	if b := w.VirtualTime; b != nil {
		c.add("virtualTime", b.source, got.Virtual.String(), b.contain(got.Virtual.Seconds()))
	}
	if b := w.Memory; b != nil {
		c.add("memory", b.source, Size(got.Memory), b.contain(float64(got.Memory)))
	}
	if slices.Equal(c.want, c.got) {
		return ""
	}
	return diff(c.want, c.got)
}

func (a *Answer) metric(name string) (float64, bool) {
	for _, m := range a.Outcome.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}

func (w *Want) compareDenied(came []string) (want, got string, equal bool) {
	var sources []string
	equal = len(came) == len(w.Denied)
	for i, p := range w.Denied {
		sources = append(sources, p.Source)
		equal = equal && (p.Matches(came[i]) || !p.IsRegex() && strings.Contains(came[i], p.Source))
	}
	return fmt.Sprintf("%q", sources), fmt.Sprintf("%q", came), equal
}

// Difference returns a diff of two answers to the same case, or "" if they agree.
func (a *Answer) Difference(other *Answer) string {
	if mine, others := a.lines(), other.lines(); !slices.Equal(mine, others) {
		return diff(mine, others)
	}
	return ""
}

// lines returns the parts of an answer that must be the same in every variant.
func (a *Answer) lines() []string {
	lines := []string{"result: " + a.Result(), "message: " + a.Message()}
	for _, m := range a.Outcome.Metrics {
		lines = append(lines, fmt.Sprintf("metrics.%s: %v%s %v", m.Name, m.Value, m.Unit, m.Labels))
	}
	return append(lines, fmt.Sprintf("denied: %q", a.Denied), fmt.Sprintf("kv: %q", a.Kept), "virtualTime: "+a.Virtual.String())
}

// InRealTime returns a copy of the case whose bounds of time are wider by slack, for a process, and a
// note about fields that are not compared. It replaces durations in the message of got by the wanted
// ones if they are longer by at most slack.
func (c *Case) InRealTime(got *Answer, slack time.Duration) (wider *Case, note string) {
	with := *c
	if b := c.Want.VirtualTime; b != nil {
		with.Want.VirtualTime = &Bounds{Max: b.Max + slack.Seconds(), source: b.source}
	}
	with.Want.Metrics = make(map[string]Bounds, len(c.Want.Metrics))
	for name, b := range c.Want.Metrics {
		b.Max += got.perSecond(name) * slack.Seconds()
		with.Want.Metrics[name] = b
	}
	if m := withDurations(got.Outcome.Output, c.Want.Message.Source, slack); got.Err == nil && c.Want.Message.Matches(m) {
		got.Outcome.Output = m
	}
	if c.Want.Memory != nil {
		with.Want.Memory, note = nil, "the memory of a process is its own"
	}
	return &with, note
}

// perSecond returns the number of units per second of a metric; 0 if it is not a time.
func (a *Answer) perSecond(name string) float64 {
	for _, m := range a.Outcome.Metrics {
		switch {
		case m.Name != name:
		case m.Unit == "s":
			return 1
		case m.Unit == "ms":
			return 1000
		}
	}
	return 0
}

var durations = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:[0-9]+(?:\.[0-9]+)?(?:ns|µs|us|ms|s|m|h))+`) })

// withDurations replaces each duration in message by the nearest one in want, if it is longer than
// that by at most slack.
func withDurations(message, want string, slack time.Duration) string {
	wanted := durations().FindAllString(want, -1)
	return durations().ReplaceAllStringFunc(message, func(text string) string {
		came, err := time.ParseDuration(text)
		if err != nil {
			return text
		}
		best, nearest := text, slack
		for _, w := range wanted {
			if d, err := time.ParseDuration(w); err == nil && d <= came && came-d <= nearest {
				best, nearest = w, came-d
			}
		}
		return best
	})
}
