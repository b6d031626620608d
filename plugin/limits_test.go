package plugin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
)

func TestDefaultLimits(t *testing.T) {
	want := plugin.Limits{
		Module: 32 << 20, Memory: 32 << 20, TableEntries: 65_536, Message: 10 << 10, Result: 64 << 10, LogLines: 100, LogBytes: 16 << 10,
		Stdio: 64 << 10, NetRead: 1 << 20, NetWrite: 256 << 10, Handles: 8, Dials: 8, HTTPBody: 1 << 20, Redirects: 3, Lookups: 8,
		KV: 64 << 10, FileRead: 1 << 20, FileEntries: 16_384, FileCalls: 16_384, Series: 64, Instances: 2000, Calls: 10_000, Idle: 5 * time.Minute,
	}
	if diff := cmp.Diff(want, plugin.Resolve(plugin.Limits{}, plugin.Limits{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestResolve(t *testing.T) {
	const mi = 1 << 20
	for _, c := range []struct {
		name               string
		manifest, operator int
		want               int
		from               string
	}{
		{"nobody", 0, 0, 32 * mi, "default"},
		{"the plugin asks for less", 16 * mi, 0, 16 * mi, "manifest"},
		{"for more", 64 * mi, 0, 64 * mi, "manifest"},
		{"for more than the top", 1024 * mi, 0, 256 * mi, "default"},
		{"the operator allows less", 64 * mi, 16 * mi, 16 * mi, "operator"},
		{"less than the default", 0, 16 * mi, 16 * mi, "operator"},
		{"more than the default", 0, 64 * mi, 64 * mi, "operator"},
		{"more than the plugin asks for", 16 * mi, 64 * mi, 16 * mi, "manifest"},
		{"both the same", 16 * mi, 16 * mi, 16 * mi, "manifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			manifest, operator := plugin.Limits{Memory: c.manifest}, plugin.Limits{Memory: c.operator}
			if got := plugin.Resolve(manifest, operator).Memory; got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
			for _, l := range plugin.ExplainLimits(manifest, operator) {
				switch {
				case l.Name == "memory" && (l.From != c.from || l.Value != plugin.FormatSize(c.want) || l.Top != "256Mi"):
					t.Errorf("shown as %+v", l)
				case l.Name != "memory" && l.From != "default":
					t.Errorf("%+v", l)
				}
			}
		})
	}
	if got := plugin.Resolve(plugin.Limits{Idle: time.Minute}, plugin.Limits{Idle: time.Second}); got.Idle != time.Second {
		t.Errorf("idle %s", got.Idle)
	}
	if got := plugin.Resolve(plugin.Limits{}, plugin.Limits{Instances: 4}); got.Instances != 4 {
		t.Errorf("%d instances", got.Instances)
	}
}

func TestExplainLimits(t *testing.T) {
	var got []string
	for _, l := range plugin.ExplainLimits(plugin.Limits{Dials: 2}, plugin.Limits{KV: 1000, Idle: time.Minute}) {
		got = append(got, fmt.Sprintf("%s %s %s", l.Name, l.Value, l.From))
	}
	want := []string{
		"module 32Mi default", "memory 32Mi default", "tableEntries 65536 default", "message 10Ki default", "result 64Ki default",
		"logLines 100 default", "logBytes 16Ki default", "stdio 64Ki default", "netRead 1Mi default", "netWrite 256Ki default",
		"handles 8 default", "dials 2 manifest", "httpBody 1Mi default", "redirects 3 default", "lookups 8 default", "kv 1000 operator",
		"fileRead 1Mi default", "fileEntries 16384 default", "fileCalls 16384 default", "series 64 default", "instances 2000 default", "calls 10000 default", "idle 1m0s operator",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := len(plugin.LimitNames) - 1; n != len(want) || plugin.LimitNames[n] != "totalMemory" {
		t.Errorf("names: %v", plugin.LimitNames)
	}
}

func TestSetLimits(t *testing.T) {
	var l plugin.Limits
	for _, shown := range plugin.ExplainLimits(plugin.Limits{}, plugin.Limits{}) {
		if err := l.Set(shown.Name, shown.Value); err != nil {
			t.Errorf("%s: %v", shown.Name, err)
		}
		if err := l.Set(shown.Name, shown.Top); err != nil {
			t.Errorf("%s: the top: %v", shown.Name, err)
		}
		for _, bad := range []string{"", "0", "-1", "many", "1.5", "99999999999999999999", "9999999999", "1h1ms"} {
			if err := l.Set(shown.Name, bad); err == nil {
				t.Errorf("%s: %q went through", shown.Name, bad)
			}
		}
	}
	for name, want := range map[plugin.LimitName]string{
		"memory": "1Gi is above 256Mi, the most that is allowed",
		"dials":  "must be an integer of at least 1",
		"idle":   `"1Gi" is not a duration above 0, such as 30s or 5m`,
		"colour": `unknown limit "colour"`,
	} {
		if err := l.Set(name, "1Gi"); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if err := l.Set("memory", "65535"); err == nil || err.Error() != "65535 is below 64Ki, a page of memory" {
		t.Errorf("less than a page of memory: got %v", err)
	}
	if l.Idle != time.Hour || l.Memory != 256<<20 {
		t.Errorf("a value that is wrong was taken: %+v", l)
	}
}

func TestManifestSetsLimits(t *testing.T) {
	const head = "apiVersion: prober.dev/v1\nname: x\nversion: 1.0.0\n"
	m, err := plugin.ParseManifest("p.yaml", []byte(head+"mode: command\nexitCodes: exec\nerrorPolicy: failure\nlimits: {netRead: 64Ki, idle: 30s, handles: 2}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (plugin.Limits{NetRead: 64 << 10, Idle: 30 * time.Second, Handles: 2}); m.Limits != want {
		t.Errorf("got %+v, want %+v", m.Limits, want)
	}
	if m.Mode != plugin.Command || m.ExitCodes != plugin.ExecCodes || m.ErrorPolicy != plugin.PolicyFailure {
		t.Errorf("got mode %s, exit codes %s, error policy %s", m.Mode, m.ExitCodes, m.ErrorPolicy)
	}
	for text, want := range map[string]string{
		"limits: {netRead: 1Gi}":   "p.yaml:4: limits.netRead: 1Gi is above 64Mi, the most that is allowed",
		"limits: {netRead: [1]}":   "p.yaml:4: limits.netRead: must be a number, not a list",
		"limits: {totalMemory: 1}": "p.yaml:4: limits.totalMemory: unknown field; known: calls, dials",
		"exitCodes: unix":          `p.yaml:4: exitCodes: unknown value "unix"; known: exec, nagios`,
		"errorPolicy: discard":     `p.yaml:4: errorPolicy: unknown value "discard"; known: error, failure`,
	} {
		if _, err := plugin.ParseManifest("p.yaml", []byte(head+text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
