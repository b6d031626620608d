package live

import (
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
)

// State is the state of a plugin.
type State int

// The states of a plugin.
const (
	Unused    State = iota // nothing runs: no probe has asked for it, or none has used it for a while
	Running                // a version runs
	Withdrawn              // nothing runs: its file was removed while probes used it
	Failed                 // nothing runs: the version that a probe asked for could not be loaded
)

// known is what is known of a plugin.
type known struct {
	state State
	runs  string // the version that runs; "" unless Running
	base  string // the version that was last found in its place: not what runs, after a promotion
	tried string // the version that was last tried
	bad   bool   // that version could not be used
}

// found is what a snapshot has of a plugin.
type found struct {
	state   admit.State
	version string // of Admitted and Stale
	rival   bool   // another plugin has the same name
	taken   bool   // its file is that of another plugin, which runs
	wrong   bool   // the file that runs, or the name, is in an error
	gone    bool   // the file that runs was removed
}

// usage is who uses a plugin.
type usage struct {
	probes int  // from Prepare to Release
	holds  int  // of manifests that name it, and of probes that wait for it
	idle   bool // nothing has used it for [Config.IdleAfter]
	retry  bool // what was tried in vain is tried again
}

func (u usage) none() bool { return u.probes == 0 && u.holds == 0 }

// action is what is to be done with a plugin.
type action int

const (
	keep        action = iota // nothing
	offer                     // note the version, for the first probe that asks for it
	confirm                   // the version runs: note its path and signatures
	load                      // load the version, and replace what runs
	withdraw                  // end what runs; probes end in errors
	unload                    // end what runs; the next probe loads it again
	forget                    // end what runs, and drop the record
	reportWrong               // what runs goes on; the snapshot's error is why
	reportTaken               // the version cannot be used: its file is that of another plugin
	reportLost                // what runs goes on, though its file holds another plugin, or none
)

// decide returns what is to be done with a plugin, by what a snapshot has of it.
func decide(k known, f found, u usage) action {
	switch running := k.state == Running; {
	case f.state == admit.Pending:
		return keep
	case f.state == admit.Absent || f.state == admit.Refused:
		return decideMissing(k, f, u)
	case k.state != Withdrawn && !running && u.none() && f.taken:
		return reportTaken
	case k.state != Withdrawn && !running && u.none():
		return offer
	case running && f.rival:
		return reportWrong
	case running && (f.version == k.runs || f.version == k.base):
		return confirm
	case k.bad && f.version == k.tried && !u.retry:
		return keep
	case f.taken:
		return reportTaken
	}
	return load
}

// decideMissing is [decide] for a plugin that the snapshot does not have, or refuses.
func decideMissing(k known, f found, u usage) action {
	switch running := k.state == Running; {
	case k.state != Withdrawn && !running:
		return forget
	case f.wrong:
		return reportWrong
	case running && !f.gone:
		return reportLost
	case u.probes == 0:
		return forget
	case running:
		return withdraw
	}
	return keep
}

// decideUnused returns what is to be done with a plugin, by who uses it. A version that was
// promoted stays: another is in its place, which would be loaded next time.
func decideUnused(k known, u usage) action {
	switch {
	case !u.none():
		return keep
	case k.state == Withdrawn:
		return forget
	case k.state == Failed, k.state == Running && k.runs == k.base && u.idle:
		return unload
	}
	return keep
}

// knownShadow is what is known of the version that runs beside a plugin.
type knownShadow struct {
	state State  // of the plugin
	runs  string // the version of the plugin that runs
	known        // of the shadow; its state is Running or Unused
}

// decideShadow returns what is to be done with the version that runs beside a plugin: keep,
// confirm, load, unload, or reportLost where there is no plugin to run beside.
func decideShadow(k knownShadow, f found, retry bool) action {
	switch {
	case f.state == admit.Pending, f.state == admit.Refused: // it was not removed
		return keep
	case f.state == admit.Absent:
		return unload
	case k.state == Withdrawn:
		return reportLost
	case k.state != Running:
		return keep
	case f.version == k.runs: // it was promoted, or put in the place of the plugin
		return unload
	case k.known.state == Running && f.version == k.known.runs:
		return confirm
	case k.bad && f.version == k.tried && !retry:
		return keep
	}
	return load
}

// isDue reports whether a shadow is to be promoted, by what was counted since it runs beside
// the version that decides.
func isDue(after admit.PromoteAfter, seen shadow.Counts) bool {
	n := seen.Compared()
	return after.Ticks > 0 && n >= uint64(after.Ticks) && float64(seen.Agree) >= after.Agreement*float64(n)
}
