package sidecar_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/sidecar"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

const at = `metadata.annotations[prober.dev/probes]`

func TestBadAnnotations(t *testing.T) {
	const noPort = ": prober sidecar does not know the names of ports: use the number, or set --ports"
	for text, want := range map[string]string{
		"":                                     at + ": Required value: it declares no probe",
		"web: {}":                              at + ": Required value: it declares no probe",
		"- web":                                at + ": Invalid value: must be a mapping of container to kind to probe",
		"a: b: c":                              at + ": Invalid value: ",
		"Web: {liveness: {plugin: {name: x}}}": at + `[Web]: Invalid value: "Web": a lowercase RFC 1123 label must consist of`,
		"web: {live: {plugin: {name: x}}}":     at + `[web]: Unsupported value: "live": supported values: "liveness", "readiness", "startup"`,
		"web: {liveness: {plugin: {name: x}, periodd: 1s}}":                             at + "[web].liveness.periodd: Invalid value: unknown field",
		"web: {liveness: {exec: {command: [ls]}}}":                                      at + "[web].liveness.exec: Forbidden: the command would run in the container of prober sidecar: leave it to the kubelet's own exec probe",
		"web: {readiness: {plugin: {name: x}, jitter: 5%}}":                             at + "[web].readiness.jitter: Forbidden: the kubelet decides when prober sidecar probes, and about the result before it",
		"web: {readiness: {plugin: {name: x}, unhealthyPeriod: 1s}}":                    at + "[web].readiness.unhealthyPeriod: Forbidden: the kubelet decides",
		"web: {readiness: {plugin: {name: x}, initialState: success}}":                  at + "[web].readiness.initialState: Forbidden: the kubelet decides",
		"web: {liveness: {plugin: {name: x}, paused: true}}":                            at + "[web].liveness.paused: Forbidden: prober sidecar has no pauses: the kubelet decides when to probe",
		"web: {liveness: {plugin: {name: x, target: {port: http}}}}":                    at + `[web].liveness.plugin.target.port: Invalid value: "http"` + noPort,
		"web: {liveness: {plugin: {name: x, target: {port: 70000}}}}":                   at + `[web].liveness.plugin.target.port: Invalid value: "70000": must be a port from 1 to 65535`,
		"web: {liveness: {httpGet: {port: http}}}":                                      at + `[web].liveness.httpGet.port: Invalid value: "http"` + noPort,
		"web: {liveness: {tcpSocket: {port: http}}}":                                    at + `[web].liveness.tcpSocket.port: Invalid value: "http"` + noPort,
		"web: {liveness: {plugin: {name: missing}}}":                                    at + "[web].liveness: unknown handler",
		"web: {liveness: {plugin: {name: x, config: {p: '${env:P}'}}}}":                 at + "[web].liveness: ${env:P}: " + noSecrets,
		"web: {liveness: {plugin: {name: x}}} #" + strings.Repeat("x", sidecar.MaxText): at + ": Too long: may not be more than 262144 bytes",
	} {
		r := newRig(t, text, probetest.NewHandler())
		s, err := sidecar.New(t.Context(), r.Config)
		if err == nil {
			s.Close()
			t.Errorf("%.80s: no error", text)
		} else if !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s:\n got %.300s\nwant %s", text, err, want)
		}
	}
	r := newRig(t, "", probetest.NewHandler())
	r.set("", errors.New("no such file"))
	if _, err := sidecar.New(t.Context(), r.Config); err == nil || err.Error() != "no such file" {
		t.Errorf("text that cannot be read: %v", err)
	}
}

func TestNamedPortsOfTheFlag(t *testing.T) {
	r := newRig(t, "web: {liveness: {httpGet: {port: http}}, readiness: {tcpSocket: {port: admin}}, startup: {plugin: {name: x, target: {port: http}}}}", probetest.NewHandler())
	var err error
	if r.Ports, err = sidecar.ParsePorts([]string{"web:http=8080", "web:admin=9", "db:http=1"}); err != nil {
		t.Fatal(err)
	}
	if w := get(r.start(t), "/web/startup"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for text, want := range map[string]string{
		"":                          `"": must be CONTAINER:NAME=PORT`,
		"http=80":                   `"http=80": must be CONTAINER:NAME=PORT`,
		"web:http":                  `"web:http": must be CONTAINER:NAME=PORT`,
		"web:http=70000":            `"web:http=70000": must be CONTAINER:NAME=PORT`,
		"web:80=80":                 `"web:80=80": must be CONTAINER:NAME=PORT`,
		"web:http=80 web:http=8080": `"web:http=8080": container web has this port twice`,
	} {
		if _, err := sidecar.ParsePorts(strings.Split(text, " ")); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// releasing is a handler that records its release.
type releasing struct {
	probe.Handler
	name     string
	released *[]string
}

func (r releasing) Release() { *r.released = append(*r.released, r.name) }

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first = "web: {readiness: {plugin: {name: a}}, liveness: {plugin: {name: b}}}"
		r := newRig(t, first, nil)
		var bound, released []string
		r.Prepare = func(_ context.Context, name string, config []byte, _ probe.Target) (probe.Handler, error) {
			if name == "missing" {
				return nil, errors.New("unknown handler")
			}
			bound = append(bound, name+string(config))
			return releasing{probetest.NewHandler(), name, &released}, nil
		}
		secret, known := "s1", true
		r.ResolveSecret = func(string, string) (string, error) {
			if !known {
				return "", errors.New("gone")
			}
			return secret, nil
		}
		s := r.start(t)
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		maintained := 0
		following.Go(func() { s.Follow(ctx, time.Second, func(context.Context) { maintained++ }) })
		step := func(text string, err error, wantBound, wantReleased string, log string) {
			t.Helper()
			bound, released = nil, nil
			r.log.Reset()
			r.set(text, err)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			slices.Sort(bound)
			slices.Sort(released)
			if got := strings.Join(bound, " "); got != wantBound {
				t.Errorf("%s: bound %s, want %s", text, got, wantBound)
			}
			if got := strings.Join(released, " "); got != wantReleased {
				t.Errorf("%s: released %s, want %s", text, got, wantReleased)
			}
			if got := r.log.String(); strings.Count(got, "\n") != min(len(log), 1) || !strings.Contains(got, log) {
				t.Errorf("%s: log\n%s\nwant one line with %s", text, got, log)
			}
		}
		step(first, nil, "", "", "")
		step("web: {readiness: {plugin: {name: a}}, liveness: {plugin: {name: c}}}", nil, "c{}", "b", `msg="annotation applied" probes=2`)
		step("web: [", nil, "", "", `level=ERROR msg="the annotation cannot be used; the last good one stays in use" error="metadata.annotations[prober.dev/probes]: Invalid value: `)
		step("web: {readiness: {plugin: {name: d}}, liveness: {plugin: {name: missing}}}", nil, "d{} d{} d{}", "d d d", "unknown handler")
		if w := get(s, "/web/liveness"); w.Code != 200 {
			t.Errorf("after a bad annotation: %d", w.Code)
		}
		step("", errors.New("no such file"), "", "", "no such file")
		const withSecret = "web: {readiness: {plugin: {name: a, config: {p: '${file:/s}'}}}}"
		step(withSecret, nil, `a{"p":"s1"}`, "a c", `msg="annotation applied" probes=1`)
		secret = "s2"
		step(withSecret, nil, `a{"p":"s2"}`, "a", "annotation applied")
		known = false
		step(withSecret, nil, "", "", "${file:/s}: gone")
		known = true
		step(withSecret, nil, "", "", "annotation applied")
		stop()
		following.Wait()
		if maintained != 27 {
			t.Errorf("plugins were looked at %d times in 27 s", maintained)
		}
	})
}

// TestFollowVolume changes the annotation as the kubelet changes a downward API volume.
func TestFollowVolume(t *testing.T) {
	dir := t.TempDir()
	write := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "probes"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	write("..1", "web: {readiness: {plugin: {name: fake}}}")
	if err := os.Symlink("..data/probes", filepath.Join(dir, "probes")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", probetest.NewHandler())
		r.Text = func() (string, error) {
			text, err := os.ReadFile(filepath.Join(dir, "probes"))
			return string(text), err
		}
		s := r.start(t)
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { s.Follow(ctx, time.Second, func(context.Context) {}) })
		write("..2", "web: {readiness: {plugin: {name: fake}}, startup: {plugin: {name: fake}}}")
		time.Sleep(1500 * time.Millisecond)
		got := map[string]int{"/web/readiness": get(s, "/web/readiness").Code, "/web/startup": get(s, "/web/startup").Code}
		if diff := cmp.Diff(map[string]int{"/web/readiness": 200, "/web/startup": 200}, got); diff != "" {
			t.Error(diff)
		}
		stop()
		following.Wait()
	})
}

func TestChangesOfResultsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok, bad := probetest.Answer(probe.Success, "fine"), probetest.Answer(probe.Failure, "down\nnow")
		r := newRig(t, "web: {readiness: {plugin: {name: fake}}}", probetest.NewHandler(ok, ok, bad, bad, ok))
		s := r.start(t)
		for range 5 {
			get(s, "/web/readiness")
			time.Sleep(time.Second)
		}
		var lines []string
		for line := range strings.Lines(r.log.String()) {
			_, text, _ := strings.Cut(line, "level=")
			lines = append(lines, strings.TrimSpace(text))
		}
		const of = `msg="result changed" container=web kind=readiness handler=fake result=`
		want := []string{"INFO " + of + "success output=fine", "WARN " + of + `failure output="down now"`, "INFO " + of + "success output=fine"}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzAnnotation(f *testing.F) {
	for _, text := range []string{
		"", "web: {readiness: {plugin: {name: x, target: {port: 1}, config: {a: ['${env:A}']}}}}", `{"web":{"liveness":{"httpGet":{"port":"http"}}}}`,
		"a: &a {readiness: *a}", "web: {startup: {grpc: {port: 1}, timeout: 1s}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := newRig(t, text, probetest.NewHandler())
		s, err := sidecar.New(t.Context(), r.Config)
		if err != nil {
			return
		}
		defer s.Close()
		if w := get(s, "/no/probe"); w.Code != 404 {
			t.Errorf("%d", w.Code)
		}
	})
}
