package plugintest

import (
	"regexp"
	"time"
)

// slack is what real time may take beyond what a case says of virtual time, and how long
// what a process does may go on when its attempt has ended.
const slack = time.Second

// quick is how soon a failure comes that is no matter of time.
const quick = 100 * time.Millisecond

// inGoodTime runs a case or a check again where it fails and takes a while: in real time a
// machine that stands still for a moment is no fault of the plugin. What fails three times
// running fails.
func inGoodTime(run func() Result) (r Result) {
	for range 3 {
		if r = run(); r.OK() || r.Real < quick {
			break
		}
	}
	return r
}

// inRealTime returns the case with bounds of time that real time can keep, and what is not
// looked at, if there is anything. It spares got, where it tells durations in its message.
func (c *Case) inRealTime(got *answer) (real *Case, left string) {
	with := *c
	if b := c.Want.VirtualTime; b != nil {
		with.Want.VirtualTime = &Bounds{Max: b.Max + slack.Seconds(), source: b.source, unit: b.unit}
	}
	with.Want.Metrics = make(map[string]Bounds, len(c.Want.Metrics))
	for name, b := range c.Want.Metrics {
		b.Max += got.unitOf(name) * slack.Seconds()
		with.Want.Metrics[name] = b
	}
	if m := sparing(got.out.Output, c.Want.Message.Source); got.err == nil && c.Want.Message.matches(m) {
		got.out.Output = m
	}
	if c.Want.Memory != nil {
		with.Want.Memory, left = nil, "the memory of a process is its own"
	}
	return &with, left
}

// unitOf is how many of its unit a metric has for a second; 0 of one that is no time.
func (a *answer) unitOf(name string) float64 {
	for _, m := range a.out.Metrics {
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

var durations = regexp.MustCompile(`(?:[0-9]+(?:\.[0-9]+)?(?:ns|µs|us|ms|s|m|h))+`)

// sparing returns a message with durations as they are wanted, where they are longer by no
// more than the slack.
func sparing(message, want string) string {
	wanted := durations.FindAllString(want, -1)
	return durations.ReplaceAllStringFunc(message, func(text string) string {
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
