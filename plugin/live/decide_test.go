package live

import (
	"fmt"
	"testing"

	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
)

var actionNames = map[action]string{
	keep: "keep", offer: "offer", confirm: "confirm", load: "load", withdraw: "withdraw", unload: "unload", forget: "forget",
	reportError: "report error", reportFileOfOther: "report file of other", reportLost: "report lost", await: "await",
}

func (a action) String() string { return actionNames[a] }

var (
	unused    = known{}
	running   = known{state: Running, runs: "v1", lastFound: "v1", tried: "v1"}
	promoted  = known{state: Running, runs: "v2", lastFound: "v1", tried: "v1"}
	broken    = known{state: Running, runs: "v1", lastFound: "v1", tried: "v2", bad: true}
	withdrawn = known{state: Withdrawn}
	failed    = known{state: Failed, tried: "v1", bad: true}
	awaited   = known{state: Awaited, bad: true}

	v1, v2       = found{state: admit.Admitted, version: "v1"}, found{state: admit.Admitted, version: "v2"}
	stale        = found{state: admit.Stale, version: "v2"}
	absent, gone = found{}, found{fileRemoved: true}
	refused      = found{state: admit.Refused, inError: true}
	broke        = found{inError: true}
	pending      = found{state: admit.Pending}
	away         = found{state: admit.Away}
	listed       = found{state: admit.Listed}
	rival        = found{state: admit.Admitted, version: "v2", duplicateName: true}
	taken        = found{state: admit.Admitted, version: "v2", fileOfOther: true}
	nobody       = usage{}
	asked        = usage{holds: 1}
	probed       = usage{probes: 1}
	again        = usage{probes: 1, retry: true}
	idle         = usage{idle: true}
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		k    known
		f    found
		u    usage
		want action
	}{
		{"unused plugin waits for a probe", unused, v1, nobody, offer},
		{"failed plugin that nobody uses waits for a probe", failed, v2, nobody, offer},
		{"first probe loads", unused, v1, asked, load},
		{"failed version is not tried again", failed, v1, asked, keep},
		{"failed version is tried again on request", failed, v1, usage{holds: 1, retry: true}, load},
		{"another version is tried after a failed one", failed, v2, asked, load},
		{"first of two plugins of a name loads", unused, rival, asked, load},
		{"file of another plugin is not offered", unused, taken, nobody, reportFileOfOther},
		{"file of another plugin is not loaded", unused, taken, asked, reportFileOfOther},

		{"probes are bound while the registry is away", unused, away, nobody, await},
		{"probes await a plugin after a failed version", failed, away, asked, await},
		{"what runs goes on while the registry is away", running, away, probed, reportError},
		{"withdrawn plugin is not awaited", withdrawn, away, probed, reportError},
		{"awaited plugin loads for its probes", awaited, v1, probed, load},
		{"awaited plugin that nobody uses waits for a probe", awaited, v1, nobody, offer},
		{"awaited plugin that is refused tells its probes why", awaited, refused, probed, await},
		{"awaited plugin that is removed tells its probes", awaited, absent, probed, await},
		{"awaited plugin that is removed and that nobody uses is forgotten", awaited, absent, nobody, forget},
		{"same version goes on", running, v1, probed, confirm},
		{"same version goes on where nobody uses it", running, v1, nobody, confirm},
		{"new version replaces", running, v2, probed, load},
		{"new version replaces where nobody uses it", running, v2, nobody, load},
		{"last good version of a registry replaces", running, stale, probed, load},
		{"broken new version is not tried again", broken, v2, probed, keep},
		{"broken new version is tried again on request", broken, v2, again, load},
		{"old version is back", broken, v1, probed, confirm},
		{"second plugin of the name replaces nothing", running, rival, probed, reportError},
		{"file of another plugin replaces nothing", running, taken, probed, reportFileOfOther},
		{"promoted version goes on while its place is unchanged", promoted, v1, probed, confirm},
		{"version that was promoted is put in its place", promoted, v2, probed, confirm},
		{"new version in its place replaces a promoted one", promoted, found{state: admit.Admitted, version: "v3"}, probed, load},

		{"plugin that was not read waits for a probe", unused, listed, nobody, offer},
		{"plugin that was not read, with the file of another one, is not offered", unused, found{state: admit.Listed, fileOfOther: true}, nobody, reportFileOfOther},
		{"plugin that is asked for after the snapshot is left alone", unused, listed, asked, keep},
		{"plugin that runs since the snapshot is left alone", running, listed, probed, keep},
		{"registry that has not answered changes nothing", running, pending, probed, keep},
		{"registry that has not answered keeps an unused plugin", unused, pending, nobody, keep},
		{"removed plugin with probes is withdrawn", running, gone, probed, withdraw},
		{"removed plugin without probes is forgotten", running, gone, asked, forget},
		{"refused version replaces nothing", running, refused, probed, reportError},
		{"broken file replaces nothing", running, broke, probed, reportError},
		{"plugin that its file does not hold goes on", running, absent, probed, reportLost},
		{"removed plugin that never ran is forgotten", unused, absent, asked, forget},
		{"refused plugin that never ran is forgotten", failed, refused, asked, forget},

		{"withdrawn plugin with probes stays", withdrawn, absent, probed, keep},
		{"withdrawn plugin without probes is forgotten", withdrawn, absent, asked, forget},
		{"withdrawn plugin that is back loads", withdrawn, v1, probed, load},
		{"withdrawn plugin with a broken file stays", withdrawn, broke, probed, reportError},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decide(c.k, c.f, c.u); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestDecideUnused(t *testing.T) {
	for _, c := range []struct {
		name string
		k    known
		u    usage
		want action
	}{
		{"running plugin with probes stays", running, probed, keep},
		{"running plugin that a manifest names stays", running, asked, keep},
		{"running plugin stays for a while", running, nobody, keep},
		{"running plugin is unloaded after a while", running, idle, unload},
		{"promoted plugin stays", promoted, idle, keep},
		{"failed plugin that a manifest names keeps its error", failed, asked, keep},
		{"failed plugin that nobody uses drops its error at once", failed, nobody, unload},
		{"withdrawn plugin with probes stays", withdrawn, probed, keep},
		{"withdrawn plugin that a manifest names stays", withdrawn, asked, keep},
		{"withdrawn plugin that nobody uses is forgotten", withdrawn, nobody, forget},
		{"unused plugin stays", unused, idle, keep},
		{"awaited plugin stays", awaited, idle, keep},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decideUnused(c.k, c.u); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestDecideShadow(t *testing.T) {
	beside := known{state: Running, runs: "v2", tried: "v2"}
	for _, c := range []struct {
		name  string
		k     knownShadow
		f     found
		retry bool
		want  action
	}{
		{"shadow of a running plugin loads", knownShadow{Running, "v1", known{}}, v2, false, load},
		{"shadow of an unused plugin waits", knownShadow{Unused, "", known{}}, v2, false, keep},
		{"shadow of a failed plugin waits", knownShadow{Failed, "", known{}}, v2, false, keep},
		{"shadow of a withdrawn plugin has nothing to run beside", knownShadow{Withdrawn, "", known{}}, v2, false, reportLost},
		{"same shadow goes on", knownShadow{Running, "v1", beside}, v2, false, confirm},
		{"shadow that was promoted is not run beside itself", knownShadow{Running, "v2", known{}}, v2, false, unload},
		{"removed shadow is unloaded", knownShadow{Running, "v1", beside}, absent, false, unload},
		{"refused shadow changes nothing", knownShadow{Running, "v1", beside}, refused, false, keep},
		{"shadow whose registry is away changes nothing", knownShadow{Running, "v1", beside}, away, false, keep},
		{"pending shadow changes nothing", knownShadow{Running, "v1", beside}, pending, false, keep},
		{"broken shadow is not tried again", knownShadow{Running, "v1", known{tried: "v2", bad: true}}, v2, false, keep},
		{"broken shadow is tried again on request", knownShadow{Running, "v1", known{tried: "v2", bad: true}}, v2, true, load},
		{"another shadow replaces", knownShadow{Running, "v1", beside}, found{state: admit.Admitted, version: "v3"}, false, load},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decideShadow(c.k, c.f, c.retry); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestIsDue(t *testing.T) {
	after := admit.PromoteAfter{Ticks: 10, Agreement: 0.9}
	for _, c := range []struct {
		after admit.PromoteAfter
		seen  shadow.Counts
		want  bool
	}{
		{after, shadow.Counts{Agree: 10}, true},
		{after, shadow.Counts{Agree: 9, Disagree: 1}, true},
		{after, shadow.Counts{Agree: 9, Errors: 1}, true},
		{after, shadow.Counts{Agree: 8, Disagree: 1, Errors: 1}, false},
		{after, shadow.Counts{Agree: 9}, false},
		{after, shadow.Counts{Agree: 9, Skipped: 5}, false},
		{admit.PromoteAfter{}, shadow.Counts{Agree: 10}, false},
	} {
		if got := isDue(c.after, c.seen); got != c.want {
			t.Errorf("%+v after %+v: %t", c.seen, c.after, got)
		}
	}
}

// model simulates the actions of decide. Every version except "bad" loads.
type model struct{ known }

func (m *model) execute(a action, f found, u usage) {
	switch a {
	case offer:
		m.state, m.bad = Unused, false
	case confirm:
		m.lastFound, m.tried, m.bad = f.version, f.version, false
	case load:
		m.tried, m.bad = f.version, f.version == "bad"
		switch {
		case !m.bad:
			m.state, m.runs, m.lastFound = Running, f.version, f.version
		case m.state == Unused:
			m.state = Failed
		}
	case withdraw:
		m.known = known{state: Withdrawn}
	case await:
		m.state, m.tried, m.bad = Awaited, "", true
	case unload, forget:
		m.known = known{}
	case reportFileOfOther:
		m.tried, m.bad = "", true
		if m.state == Unused || m.state == Failed {
			m.state = Failed
			if u.none() {
				m.state = Unused
			}
		}
	case reportError, reportLost:
		m.bad = true
	}
}

// FuzzDecide runs decide on random snapshots and usages, and checks the invariants after each
// action. Each two bytes are one step.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{0x01, 0x10, 0x01, 0x11, 0x02, 0x12, 0x00, 0x92})
	f.Add([]byte{0x01, 0x11, 0x03, 0x11, 0x02, 0x51, 0x40, 0x01, 0x40, 0x00, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var m model
		versions := []string{"v1", "v2", "bad", "v3"}
		for ; len(steps) >= 2; steps = steps[2:] {
			a, b := steps[0], steps[1]
			has := found{state: admit.State(a % 7), duplicateName: a&0x20 != 0, fileOfOther: a&0x40 != 0, inError: b&0x40 != 0, fileRemoved: b&0x80 != 0}
			if has.state == admit.Admitted || has.state == admit.Stale {
				has.version = versions[a>>3&3]
			}
			u := usage{probes: int(b & 3), holds: int(b >> 2 & 1), idle: b&0x10 != 0, retry: b&0x20 != 0}
			if m.state == Unused || m.state == Failed {
				u.probes = 0 // no version could prepare them
			}
			before := m
			act := decide(m.known, has, u)
			m.execute(act, has, u)
			check(t, &before, &m, has, u, act)
			before = m
			act = decideUnused(m.known, u)
			m.execute(act, has, u)
			if act != keep && !u.none() || act == unload && before.state == Running && before.runs != before.lastFound {
				t.Fatalf("%v of %+v with %+v", act, before, u)
			}
		}
	})
}

func check(t *testing.T, before, after *model, f found, u usage, act action) {
	t.Helper()
	text := fmt.Sprintf("%v of %+v by %+v with %+v", act, before.known, f, u)
	if actionNames[act] == "" {
		t.Fatal("no action: " + text)
	}
	lost := before.state == Running && after.state != Running
	switch loadable := f.state == admit.Admitted || f.state == admit.Stale; {
	case lost && (loadable || f.state == admit.Pending || f.state == admit.Listed):
		t.Error("what runs is lost, though the plugin is there: " + text)
	case lost && (f.inError || !f.fileRemoved):
		t.Error("what runs is lost, though its file is only broken: " + text)
	case act == forget && u.probes > 0:
		t.Error("probes lose their plugin: " + text)
	case act == load && (f.fileOfOther || before.state != Running && before.state != Withdrawn && u.none()):
		t.Error("a plugin is loaded that may not be, or that nobody uses: " + text)
	case act == load && f.version == before.runs:
		t.Error("a version replaces itself: " + text)
	case act == load && before.bad && f.version == before.tried && !u.retry:
		t.Error("a bad version is tried again: " + text)
	case loadable && !f.fileOfOther && !f.duplicateName && !u.none() && f.version != "bad" && after.state != Running && !(before.bad && before.tried == f.version):
		t.Error("a good plugin that is used does not run: " + text)
	}
	// The same snapshot again changes nothing, unless retry is set.
	u.retry = false
	if next := decide(after.known, f, u); next == load || next == withdraw || next == forget && act != forget {
		t.Errorf("%s, and then %v", text, next)
	}
}
