package live

import (
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
)

// State is the state of a plugin.
type State int

// The states of a plugin.
const (
	Unused    State = iota // no version runs: no probe has asked for it, or none has used it for a while
	Running                // a version runs
	Withdrawn              // no version runs: its file was removed while probes used it
	Failed                 // no version runs: the one that a probe asked for could not be loaded
	Awaited                // no version runs, as its registry is away; probes are bound, and end in errors
)

// known is the recorded state of a plugin.
type known struct {
	state     State
	runs      string // the running version; "" unless Running
	lastFound string // the version in the plugin's own file; after the promotion of a shadow, runs is another one
	tried     string // the version of the last attempt to load
	bad       bool   // whether this attempt failed
}

// found is the entry of a plugin in a snapshot.
type found struct {
	state         admit.State
	version       string // set if Admitted or Stale
	duplicateName bool   // another plugin has the same name
	fileOfOther   bool   // another running plugin was loaded from its file
	inError       bool   // the snapshot has an error about the running version's file, or about the name
	fileRemoved   bool   // the running version's file was removed
}

// usage are the users of a plugin.
type usage struct {
	probes int  // number of probes between Prepare and Release
	holds  int  // number of manifests that name it and of probes that wait for it
	idle   bool // unused for [Config.IdleAfter]
	retry  bool // try a failed version again
}

func (u usage) none() bool { return u.probes == 0 && u.holds == 0 }

// action is a change of a plugin.
type action int

const (
	keep              action = iota // change nothing
	offer                           // record the version, for the first probe that asks for it
	confirm                         // record the path and the signatures of the running version
	load                            // load the version, and replace the running one
	withdraw                        // stop the running version; probes return errors
	unload                          // stop the running version, or drop the error of a failed one; the next probe loads it. Ends a shadow
	forget                          // stop the running version, and drop the record
	await                           // bind probes before there is a version; they return errors
	reportError                     // report the snapshot's error; keep the running version
	reportFileOfOther               // report that another plugin was loaded from the file
	reportLost                      // report that the file does not contain the plugin; keep the running version
)

// decide returns the action for a plugin with the entry f in a snapshot.
// See RATIONALE.md, "Why are plugins decided twice?"
func decide(k known, f found, u usage) action {
	switch running := k.state == Running; {
	case f.state == admit.Listed && k.state == Unused && u.none() && f.fileOfOther:
		return reportFileOfOther
	case f.state == admit.Listed && k.state == Unused && u.none():
		return offer
	case f.state == admit.Pending, f.state == admit.Listed: // if Listed, a probe that needs it takes a snapshot that reads it
		return keep
	case f.state == admit.Away && (running || k.state == Withdrawn):
		return reportError
	case f.state == admit.Away:
		return await
	case f.state == admit.Absent || f.state == admit.Refused:
		return decideMissing(k, f, u)
	case k.state != Withdrawn && !running && u.none() && f.fileOfOther:
		return reportFileOfOther
	case k.state != Withdrawn && !running && u.none():
		return offer
	case running && f.duplicateName:
		return reportError
	case running && (f.version == k.runs || f.version == k.lastFound):
		return confirm
	case k.bad && f.version == k.tried && !u.retry:
		return keep
	case f.fileOfOther:
		return reportFileOfOther
	}
	return load
}

// decideMissing is [decide] for a plugin that is absent from the snapshot, or refused.
func decideMissing(k known, f found, u usage) action {
	switch running := k.state == Running; {
	case k.state == Awaited && u.probes > 0:
		return await
	case k.state != Withdrawn && !running:
		return forget
	case f.inError:
		return reportError
	case running && !f.fileRemoved:
		return reportLost
	case u.probes == 0:
		return forget
	case running:
		return withdraw
	}
	return keep
}

// decideUnused returns the action for a plugin by its users only. A promoted version stays, since the
// next probe would load the version in the plugin's file instead.
func decideUnused(k known, u usage) action {
	switch {
	case !u.none():
		return keep
	case k.state == Withdrawn:
		return forget
	case k.state == Failed, k.state == Running && k.runs == k.lastFound && u.idle:
		return unload
	}
	return keep
}

// knownShadow is the state of a shadow and of its plugin.
type knownShadow struct {
	pluginState State
	pluginRuns  string // the running version of the plugin
	shadow      known  // its state is Running or Unused
}

// decideShadow returns the action for a shadow: keep, confirm, load, unload, or reportLost if
// there is no plugin to compare it with.
func decideShadow(k knownShadow, f found, retry bool) action {
	switch {
	case f.state == admit.Pending, f.state == admit.Refused, f.state == admit.Away:
		return keep
	case f.state == admit.Absent:
		return unload
	case k.pluginState == Withdrawn:
		return reportLost
	case k.pluginState != Running:
		return keep
	case f.version == k.pluginRuns: // it was promoted, or the plugin has been replaced by this version
		return unload
	case k.shadow.state == Running && f.version == k.shadow.runs:
		return confirm
	case k.shadow.bad && f.version == k.shadow.tried && !retry:
		return keep
	}
	return load
}

// isDue reports whether the counts since the start of the comparison allow promoting a shadow.
func isDue(after admit.PromoteAfter, seen shadow.Counts) bool {
	n := seen.Compared()
	return after.Ticks > 0 && n >= uint64(after.Ticks) && float64(seen.Agree) >= after.Agreement*float64(n)
}
