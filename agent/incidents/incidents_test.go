package incidents_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/incidents"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

var begin = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// fleet is a list of probes.
type fleet []incidents.Probe

// add returns f with n healthy probes of pods NAME-0, NAME-1 and so on, after edits.
func (f fleet) add(n int, name string, edits ...func(i int, p *incidents.Probe)) fleet {
	for i := range n {
		p := incidents.Probe{
			Key:   incidents.Key{Namespace: "shop", Pod: fmt.Sprintf("%s-%d", name, i), UID: fmt.Sprintf("uid-%s-%d", name, i), Container: "app", Kind: probe.Readiness},
			State: states.Success, Since: begin.Add(-time.Hour), Handler: "http",
		}
		for _, edit := range edits {
			edit(i, &p)
		}
		f = append(f, p)
	}
	return f
}

// find returns the incidents of f.
func (f fleet) find(now time.Time) []*incidents.Incident {
	failing, healthy := f.split()
	return incidents.Find(failing, healthy, now)
}

// step returns the log after l.
func (f fleet) step(l *incidents.Log, now time.Time) *incidents.Log {
	failing, healthy := f.split()
	return l.Step(failing, healthy, now)
}

func fail(p *incidents.Probe) bool { return p.State == states.Failure || p.State == states.Unknown }

// split returns the failing and the healthy probes of f.
func (f fleet) split() (failing []incidents.Probe, healthy iter.Seq[*incidents.Probe]) {
	for i := range f {
		if fail(&f[i]) {
			failing = append(failing, f[i])
		}
	}
	return failing, func(yield func(*incidents.Probe) bool) {
		for i := range f {
			if !fail(&f[i]) && !yield(&f[i]) {
				return
			}
		}
	}
}

type edit = func(i int, p *incidents.Probe)

// fails makes probes fail with a cause, each a second after the one before it.
func fails(reason probe.Reason, format string) edit { return failsEach(time.Second, reason, format) }

func failsEach(every time.Duration, reason probe.Reason, format string) edit {
	return func(i int, p *incidents.Probe) {
		p.State, p.Since = states.Failure, begin.Add(time.Duration(i)*every)
		p.Cause = states.Cause{Reason: string(reason), Text: format}
		if strings.Contains(format, "%d") {
			p.Cause.Text = fmt.Sprintf(format, i)
		}
	}
}

// blind makes failing probes have no verdict.
func blind(_ int, p *incidents.Probe) { p.State = states.Unknown }

func late(d time.Duration) edit {
	return func(_ int, p *incidents.Probe) { p.Since = p.Since.Add(d) }
}

func at(format string) edit {
	return func(i int, p *incidents.Probe) { p.Address = fmt.Sprintf(format, i+1) }
}

func host(name string) edit { return func(_ int, p *incidents.Probe) { p.Address = name } }

func path(path string) edit {
	return func(_ int, p *incidents.Probe) { p.Target = "GET http://" + p.Address + ":8080" + path }
}

func plugin(name string) edit {
	return func(_ int, p *incidents.Probe) { p.Handler, p.Plugin = name, true }
}

func label(name, value string) edit {
	return func(_ int, p *incidents.Probe) {
		if p.Labels == nil {
			p.Labels = make(map[string]string)
		}
		p.Labels[name] = value
	}
}

func kind(k probe.Kind) edit { return func(_ int, p *incidents.Probe) { p.Kind = k } }

// group makes probes part of a group that depends on others.
func group(name string, on ...string) edit {
	return func(_ int, p *incidents.Probe) { p.Group, p.DependsOn = name, on }
}

// dependent makes probes fail because a group fails.
func dependent(name, on string) []edit {
	return []edit{fails(probe.ReasonDependency, "depends on "+on+", which fails: x; own failure: y"), blind, group(name, on)}
}

const (
	refused = "dial tcp 10.0.3.%d:8080: connect: connection refused"
	timeout = "dial tcp 10.0.3.%d:8080: i/o timeout"
	status  = "HTTP probe failed with statuscode: "
)

// summary returns the incidents as "CAUSE (FAILING) first POD".
func summary(all []*incidents.Incident) (lines []string) {
	for _, i := range all {
		state := ""
		if !i.End.IsZero() {
			state = "ended "
		}
		lines = append(lines, fmt.Sprintf("%s%s (%d) first %s", state, i.Cause, i.Failing, i.First.Pod))
	}
	return lines
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name  string
		fleet fleet
		want  []string
	}{
		{"nothing fails", fleet{}.add(9, "web"), nil},
		{"one probe alone", fleet{}.add(9, "web").add(1, "db", fails(probe.ReasonConnectRefused, refused)),
			[]string{"connection refused at shop/db-0 (1) first db-0"}},
		{"a switch dies with one reason", fleet{}.add(30, "web", at("10.0.4.%d")).add(140, "db", at("10.0.3.%d"), fails(probe.ReasonConnectRefused, refused)),
			[]string{"connection refused from 10.0.3.0/24 (140) first db-0"}},
		{"a switch dies with several reasons", fleet{}.add(30, "web", at("10.0.4.%d")).
			add(20, "a", at("10.0.3.%d"), fails(probe.ReasonConnectTimeout, timeout)).
			add(15, "b", at("10.0.3.1%02d"), fails(probe.ReasonDeadline, "probe timed out after 1s")).
			add(2, "c", at("10.0.3.20%d"), fails(probe.ReasonProtocol, "unexpected EOF")),
			[]string{"10.0.3.0/24: connection timeout, timeout and 1 more (37) first a-0"}},
		{"one healthy neighbour", fleet{}.add(1, "ok", at("10.0.3.20%d")).add(5, "db", at("10.0.3.%d"), fails(probe.ReasonConnectRefused, refused)),
			[]string{"connection refused from 10.0.3.0/24 (5) first db-0"}},
		{"many healthy neighbours", fleet{}.add(9, "ok", at("10.0.3.20%d")).add(5, "db", at("10.0.3.%d"), fails(probe.ReasonConnectRefused, refused)),
			[]string{"connection refused (5) first db-0"}},
		{"IPv6", fleet{}.add(4, "web", at("fd00:4::%d")).add(4, "db", at("fd00:3::%d"), fails(probe.ReasonConnectRefused, "dial tcp [fd00:3::%d]:80: connection refused")),
			[]string{"connection refused from fd00:3::/64 (4) first db-0"}},
		{"IPv4 in IPv6", fleet{}.add(4, "db", at("::ffff:10.0.3.%d"), fails(probe.ReasonConnectRefused, refused)),
			[]string{"connection refused from 10.0.3.0/24 (4) first db-0"}},
		{"DNS dies", fleet{}.add(9, "ok", at("10.0.3.%d")).add(9, "web", at("10.0.3.10%d"), fails(probe.ReasonDNS, "lookup web-%d.example: no such host")),
			[]string{"DNS (9) first web-0"}},
		{"one path answers 503", fleet{}.add(9, "ok", at("10.0.3.%d"), path("/healthz")).
			add(40, "web", at("10.0.3.1%02d"), path("/checkout"), fails(probe.ReasonHTTPStatus, status+"503")),
			[]string{"HTTP 503 at /checkout (40) first web-0"}},
		{"one app answers 503", fleet{}.add(9, "ok", path("/healthz"), label("app", "ok"), label("env", "prod")).
			add(40, "web", path("/healthz"), fails(probe.ReasonHTTPStatus, status+"503"), label("app", "web"), label("env", "prod"), label("pod-template-hash", "1")),
			[]string{"HTTP 503 at /healthz (40) first web-0"}},
		{"one app answers 503 at a usual path", fleet{}.add(20, "ok", path("/healthz"), label("app", "ok")).
			add(40, "web", path("/healthz"), fails(probe.ReasonHTTPStatus, status+"503"), label("app", "web"), label("pod-template-hash", "1")),
			[]string{"HTTP 503 with app=web (40) first web-0"}},
		{"two statuses", fleet{}.add(9, "ok").add(4, "a", fails(probe.ReasonHTTPStatus, status+"503")).add(3, "b", fails(probe.ReasonHTTPStatus, status+"404")),
			[]string{"HTTP 503 (4) first a-0", "HTTP 404 (3) first b-0"}},
		{"an app fails in several ways", fleet{}.add(9, "ok", label("app", "ok")).
			add(4, "web", label("app", "web"), fails(probe.ReasonHTTPStatus, status+"503")).
			add(4, "web", label("app", "web"), kind(probe.Liveness), fails(probe.ReasonDeadline, "probe timed out after 1s")),
			[]string{"app=web: timeout, HTTP 503 (8) first web-0"}},
		{"two independent at the same moment", fleet{}.add(9, "ok").
			add(4, "web", at("10.0.3.%d"), fails(probe.ReasonHTTPStatus, status+"500")).
			add(3, "db", at("10.0.9.%d"), fails(probe.ReasonConnectRefused, refused)),
			[]string{"HTTP 500 from 10.0.3.0/24 (4) first web-0", "connection refused from 10.0.9.0/24 (3) first db-0"}},
		{"three causes", fleet{}.add(60, "ok", at("10.0.5.%d"), label("env", "prod")).
			add(140, "db", at("10.0.3.%d"), label("env", "prod"), fails(probe.ReasonConnectRefused, refused)).
			add(40, "web", at("10.0.4.%d"), label("env", "prod"), path("/checkout"), fails(probe.ReasonHTTPStatus, status+"503")).
			add(9, "far", host("far.example"), label("env", "prod"), fails(probe.ReasonDNS, "lookup far-%d: no such host")).
			add(20, "ok2", at("10.0.6.%d"), label("env", "prod")),
			[]string{"connection refused from 10.0.3.0/24 (140) first db-0", "HTTP 503 at /checkout (40) first web-0", "DNS (9) first far-0"}},
		{"the same cause an hour later", fleet{}.add(3, "a", fails(probe.ReasonConnectRefused, refused)).add(3, "b", fails(probe.ReasonConnectRefused, refused), late(-time.Hour)),
			[]string{"connection refused (3) first b-0", "connection refused (3) first a-0"}},
		{"a slow roll over 10 minutes", fleet{}.add(10, "web", label("app", "web"), failsEach(time.Minute, probe.ReasonConnectRefused, refused)),
			[]string{"connection refused with app=web (10) first web-0"}},
		{"a roll that never ends", fleet{}.add(40, "web", failsEach(time.Minute, probe.ReasonConnectRefused, refused)),
			[]string{"connection refused (31) first web-0", "connection refused (9) first web-31"}},
		{"a host dies", fleet{}.add(9, "ok", at("10.0.3.%d")).
			add(1, "a", host("10.0.3.77"), fails(probe.ReasonConnectRefused, refused)).add(1, "b", host("10.0.3.77"), fails(probe.ReasonConnectTimeout, timeout), late(time.Second)),
			[]string{"10.0.3.77: connection refused, connection timeout (2) first a-0"}},
		{"a host with a name dies", fleet{}.add(3, "a", host("shop.example"), fails(probe.ReasonConnectRefused, refused)),
			[]string{"connection refused from shop.example (3) first a-0"}},
		{"loopback is no place", fleet{}.add(3, "a", host("127.0.0.1"), fails(probe.ReasonConnectRefused, refused)).add(1, "b", host("127.0.0.1"), fails(probe.ReasonBody, "no ok")),
			[]string{"connection refused (3) first a-0", "no ok at shop/b-0 (1) first b-0"}},
		{"one pod fails in two ways", fleet{}.add(1, "a", fails(probe.ReasonHTTPStatus, status+"500")).add(1, "a", kind(probe.Liveness), fails(probe.ReasonDeadline, "timed out"), late(time.Second)),
			[]string{"shop/a-0: HTTP 500, timeout (2) first a-0"}},
		{"a plugin traps", fleet{}.add(9, "ok").add(5, "db", at("10.0.%d.1"), plugin("redis"), fails(probe.ReasonTrap, "unreachable at 0x%d"), blind).add(4, "web", plugin("mysql"), fails(probe.ReasonTrap, "unreachable"), blind),
			[]string{"plugin redis: trap (5) first db-0", "plugin mysql: trap (4) first web-0"}},
		{"a plugin fails in several ways", fleet{}.add(9, "ok").add(5, "db", plugin("redis"), func(i int, p *incidents.Probe) {
			fails(probe.ReasonGuest, []string{"no reply", "bad reply", "no slot"}[i%3])(i, p)
		}),
			[]string{"plugin redis: no reply, bad reply and 1 more (5) first db-0"}},
		{"trouble of the host", fleet{}.add(4, "a", at("10.0.3.%d"), fails(probe.ReasonHostNetwork, "connect: network is unreachable"), blind).add(3, "b", at("10.0.4.%d"), fails(probe.ReasonHostNetwork, "lookup b: connection refused"), blind),
			[]string{"this host has no network (7) first a-0"}},
		{"a dependency", fleet{}.add(20, "web", dependent("web", "db")...).add(1, "db", group("db"), fails(probe.ReasonConnectRefused, refused), late(time.Second)),
			[]string{"connection refused at shop/db-0 (21) first db-0"}},
		{"a chain of dependencies", fleet{}.add(5, "web", dependent("web", "cache")...).add(2, "cache", dependent("cache", "db")...).
			add(2, "db", group("db"), host("10.0.3.9"), fails(probe.ReasonConnectRefused, refused), late(time.Second)),
			[]string{"connection refused from 10.0.3.9 (9) first db-0"}},
		{"a dependency that fails nowhere", fleet{}.add(5, "web", dependent("web", "db")...),
			[]string{"db fails (5) first web-0"}},
		{"a cycle of dependencies", fleet{}.add(2, "a", dependent("a", "b")...).add(3, "b", dependent("b", "a")...),
			[]string{"a fails (3) first b-0", "b fails (2) first a-0"}},
		{"an endpoint of failing checks", fleet{}.add(3, "db", host("10.0.3.9"), fails(probe.ReasonConnectRefused, refused)).
			add(1, "shop", fails("", "1 of 4 checks pass"), func(_ int, p *incidents.Probe) {
				p.Behind = []incidents.Key{{Namespace: "shop", Pod: "db-1", UID: "uid-db-1", Container: "app", Kind: probe.Readiness}, {Pod: "gone"}}
			}),
			[]string{"connection refused from 10.0.3.9 (4) first db-0"}},
		{"a range needs three addresses", fleet{}.add(1, "a", at("10.0.3.%d"), fails(probe.ReasonConnectRefused, refused)).add(1, "b", at("10.0.3.1%d"), fails(probe.ReasonDeadline, "timed out")),
			[]string{"connection refused at shop/a-0 (1) first a-0", "timeout at shop/b-0 (1) first b-0"}},
		{"one group of targets", fleet{}.add(9, "ok", group("ok")).add(4, "web", group("web"), fails(probe.ReasonExecExit, "exit status 1")),
			[]string{"exit status 1 in group web (4) first web-0"}},
		{"no text", fleet{}.add(1, "web", fails("", "")), []string{"no output at shop/web-0 (1) first web-0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := summary(c.fleet.find(begin.Add(2 * time.Hour))); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
