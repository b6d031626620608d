package whatif

import (
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Messages returns the messages that the receivers of a configuration would have got for changes of the states of
// probes until a time, in the order of time, with its maintenance windows. It sorts the changes. labels returns the
// labels of NAMESPACE/POD.
func Messages(c *config.Agent, changes []api.StateChange, until time.Time, labels func(pod string) map[string]string) (all []*format.Message) {
	if len(changes) == 0 {
		return nil
	}
	slices.SortStableFunc(changes, func(a, b api.StateChange) int { return a.Time.Compare(b.Time) })
	start := changes[0].Time
	s := notify.NewSimulation(c.Notify, start, func(m *format.Message) { all = append(all, m) })
	s.Labels = labels
	windows := newMaintenance(c.Maintenance, start, until, labels, s.Maintain)
	causes := make(map[worker.Info]states.Cause)
	for i := range changes {
		if x, ok := changeOf(&changes[i], causes); ok {
			windows.advance(x.Time)
			windows.add(&x.Info, x.Time)
			s.Change(x)
		}
	}
	windows.advance(until)
	s.Advance(until)
	return all
}

// changeOf returns a change as the agent made it. causes has the last cause of each probe. ok is false for a change
// that is none for notifications.
func changeOf(c *api.StateChange, causes map[worker.Info]states.Cause) (x *states.Change, ok bool) {
	kind, err := probe.ParseKind(c.Kind)
	if err != nil || c.From == absent && stateOf(c.To) == states.Unknown && c.Reason == "" && c.To != absent {
		return nil, false // a new probe without a verdict yet
	}
	info := worker.Info{
		Subject: results.Subject{Namespace: c.Namespace, Pod: c.Pod, PodUID: c.Namespace + "/" + c.Pod, Container: c.Container}, Kind: kind, Handler: c.Handler,
	}
	x = &states.Change{Info: info, From: stateOf(c.From), To: stateOf(c.To), Time: c.Time, Cause: states.Cause{Reason: c.Reason, Text: c.Text}, Removed: c.To == absent}
	info.Handler = ""
	x.Was = causes[info]
	causes[info] = x.Cause
	return x, true
}

// stateOf returns the state with a word of the history. A probe that is absent is unknown.
func stateOf(word string) states.State {
	for _, s := range []states.State{states.Success, states.Warning, states.Failure} {
		if word == s.String() {
			return s
		}
	}
	return states.Unknown
}
