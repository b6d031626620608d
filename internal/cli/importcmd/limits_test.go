package importcmd

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHostileInputIsBounded has inputs that ask for far more memory or time than their size.
func TestHostileInputIsBounded(t *testing.T) {
	repeat := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	same := func(text string) func(int) string { return func(int) string { return text } }
	for name, test := range map[string]struct{ tool, file, text string }{
		"nagios macros of arguments": {"nagios", "a.cfg", "define command {\n command_name c\n command_line /bin/x " + strings.Repeat("$ARG1$", 100_000) + "\n}\n" +
			"define host {\n host_name h\n check_command c!" + strings.Repeat("a", 900_000) + "\n}\n"},
		"nagios long commands": {"nagios", "a.cfg", "define command {\n command_name c\n command_line /bin/x " + strings.Repeat("a", 60_000) + "\n}\n" +
			repeat(2000, func(i int) string { return fmt.Sprintf("define host {\n host_name h%d\n check_command c\n}\n", i) })},
		"nagios parents": {"nagios", "a.cfg", "define command {\n command_name c\n command_line /bin/x\n}\n" + repeat(1000, func(i int) string {
			return fmt.Sprintf("define host {\n host_name h%d\n check_command c\n parents %s\n}\n", i, repeat(i, func(j int) string { return fmt.Sprintf("h%d,", j) }))
		})},
		"nagios cycle": {"nagios", "a.cfg", "define command {\n command_name c\n command_line /bin/x\n}\n" + repeat(1000, func(i int) string {
			return fmt.Sprintf("define host {\n host_name h%d\n check_command c\n parents %s\n}\n", i, repeat(1000, func(j int) string { return fmt.Sprintf("h%d,", j) }))
		})},
		"nagios continued lines":  {"nagios", "a.cfg", strings.Repeat("a\\\n", 2_700_000)},
		"nagios many directives":  {"nagios", "a.cfg", "define host {\n" + repeat(300_000, func(i int) string { return fmt.Sprintf("_a%d b\n", i) }) + "}\n"},
		"nagios long list":        {"nagios", "a.cfg", "define contactgroup {\n contactgroup_name a\n members " + repeat(100_000, func(i int) string { return fmt.Sprintf("%d,", i) }) + "\n}\n"},
		"monit depends":           {"monit", "monitrc", repeat(10_000, same("check host a with address h if failed port 80 then alert\n")) + "check host b with address h depends on " + strings.Repeat("a ", 500_000) + "if failed port 1 then alert\n"},
		"monit many that depend":  {"monit", "monitrc", repeat(10_000, same("check host a with address h depends on a if failed port 80 then alert\n"))},
		"monit alerts":            {"monit", "monitrc", repeat(50_000, same("set alert a@b.c\n")) + repeat(5000, same("check host a with address h if failed port 80 then alert\n"))},
		"cloudprober targets":     {"cloudprober", "a.cfg", `shared_targets { name: "s" targets { host_names: "` + strings.Repeat("h,", 1_000_000) + `" } }` + repeat(10_000, same(` probe { name: "a" type: PING targets { shared_targets: "s" } }`))},
		"cloudprober fields":      {"cloudprober", "a.cfg", repeat(190_000, func(i int) string { return fmt.Sprintf("f%d: 1\n", i) })},
		"gatus labels":            {"gatus", "a.yaml", "endpoints:\n- name: a\n  url: tcp://h:1\n  conditions: []\n  extra-labels:\n" + repeat(100_000, func(i int) string { return fmt.Sprintf("    a%d: b\n", i) })},
		"blackbox body":           {"blackbox", "a.yml", "modules: {m: {prober: http, http: {body: '" + strings.Repeat("a", 1_000_000) + "'}}}\n"},
		"names with equal prefix": {"nagios", "a.cfg", "define command {\n command_name c\n command_line /bin/x\n}\n" + repeat(5000, func(i int) string { return fmt.Sprintf("define host {\n host_name h%d\n check_command c\n}\n", i) })},
		"gatus overrides": {"gatus", "a.yaml", "alerting: {slack: {overrides: [" + repeat(50_000, func(i int) string { return fmt.Sprintf("{group: g%d},", i) }) + "]}}\nendpoints:\n" +
			repeat(10_000, func(i int) string {
				return fmt.Sprintf("- {name: a, group: g%d, url: 'tcp://h:1', alerts: [{type: slack}]}\n", i)
			})},
		"gatus placeholders": {"gatus", "a.yaml", "endpoints: [{name: '" + strings.Repeat("a", 1_000_000) + "', url: 'http://h', body: '" + strings.Repeat("[ENDPOINT_NAME]", 100_000) + "'}]\n"},
		"gatus templates":    {"gatus", "a.yaml", "alerting: {custom: {method: POST, url: 'http://h', body: '" + strings.Repeat("{", 1_000_001) + "'}}\nendpoints: [{name: a, url: 'http://h', alerts: [{type: custom}]}]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files := []input{{test.file, []byte(test.text)}}
			if len(test.text) > maxInput {
				t.Fatalf("the input has %d bytes", len(test.text))
			}
			if test.tool == "blackbox" {
				jobs := repeat(10_000, func(i int) string {
					return fmt.Sprintf("- {job_name: j%d, metrics_path: /probe, params: {module: [m]}, static_configs: [{targets: [h]}]}\n", i)
				})
				files = append(files, input{"b.yml", []byte("scrape_configs:\n" + jobs)})
			}
			start := time.Now()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p := newPlan()
			i := slices.IndexFunc(importers, func(i importer) bool { return i.tool == test.tool })
			if err := importers[i].read(p, files); err == nil {
				p.acyclic()
				for _, r := range p.receivers {
					p.matchOf(r.name)
				}
			}
			runtime.ReadMemStats(&after)
			used, took := (after.TotalAlloc-before.TotalAlloc)>>20, time.Since(start)
			t.Logf("%d MiB, %v", used, took.Round(time.Millisecond))
			if used > 2048 || took > time.Minute {
				t.Errorf("%d MiB, %v", used, took)
			}
		})
	}
}

// TestReceiverMatchesManyGroups has half of many groups with a receiver.
func TestReceiverMatchesManyGroups(t *testing.T) {
	p := newPlan()
	for i := range maxEntries {
		g := &group{name: fmt.Sprintf("g-%d", i)}
		if i%2 == 0 {
			g.alerts = []string{"r"}
		}
		p.groups = append(p.groups, g)
	}
	start := time.Now()
	for range maxReceivers {
		p.matchOf("r")
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Error(took)
	}
}
