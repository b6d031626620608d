//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/notify/format"
)

// object is an object of JSON.
type object = map[string]any

// fault is a row of the table: a server with a fault, a probe of it, and what prober must say.
type fault struct {
	name  string
	at    string // HOST:PORT or a URL, as in static of prober.yaml
	probe object
	state string // "success", "warning", "failure" or "unknown"
	// cause is the whole message. {AT} in it is the address, and … any text.
	cause string
}

// services has the rows of each service.
var services = []struct {
	name   string
	faults func(*testing.T) []fault
}{
	{"nginx", nginxFaults},
	{"apache", apacheFaults},
	{"haproxy", haproxyFaults},
	{"squid", squidFaults},
	{"caddy", caddyFaults},
	{"grpc", grpcFaults},
	{"redis", redisFaults},
	{"memcached", memcachedFaults},
	{"postgresql", postgresFaults},
	{"mariadb", mariaDBFaults},
	{"nats", natsFaults},
	{"nsd", nsdFaults},
	{"bind9", bindFaults},
	{"unbound", unboundFaults},
	{"chrony", chronyFaults},
	{"postfix", postfixFaults},
	{"exim4", eximFaults},
	{"dovecot", dovecotFaults},
	{"openssh", sshFaults},
	{"slapd", slapdFaults},
	{"mosquitto", mosquittoFaults},
	{"imap and pop3", mailFaults},
	{"kafka", kafkaFaults},
	{"etcd", etcdFaults},
	{"mongodb", mongoDBFaults},
	{"s3", s3Faults},
	{"coturn", coturnFaults},
	{"snmpd", snmpdFaults},
}

// TestFaults gives agents real servers, each with a fault. The state must be right, and its cause must be the same in
// the API, in `prober explain` and in a notification, as an operator wants to read it.
//
// Reported as blackbox_exporter 885.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			hook := newHook(t)
			a := &faultAgent{faults: s.faults(t), receiver: object{"webhook": object{"url": hook.URL}}, messages: hook.bodies}
			a.start(t, exec.Command)
			a.check(t)
		})
	}
}

// byPlugin returns a probe by a plugin.
func byPlugin(name string, config object) object {
	return object{"plugin": object{"name": name, "config": config}}
}

// within returns a probe with a timeout.
func within(timeout string, probe object) object {
	probe = maps.Clone(probe)
	probe["timeout"] = timeout
	return probe
}

// faultAgent is an agent with a target for each fault. Each target has a group of its own, whose name is rowName.
type faultAgent struct {
	faults   []fault
	receiver object        // of prober.yaml
	messages func() []byte // the messages to it, as JSON
	socket   string
}

func rowName(i int) string { return fmt.Sprintf("row%d", i) }

// start starts the agent with command.
func (a *faultAgent) start(t *testing.T, command func(string, ...string) *exec.Cmd) {
	t.Helper()
	config, err := json.MarshalIndent(a.config(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	a.socket = filepath.Join(t.TempDir(), "s")
	cmd := starts(t, command(absolute(t, filepath.Join(bin, "prober")), "run", "--listen", "127.0.0.1:0", "--socket", a.socket,
		"--plugins", examplePlugins(t), "--config", file(t, "prober.yaml", string(config))))
	await(t, "the agent", func() bool {
		if exited(cmd.Process.Pid) {
			t.Fatal("the agent has ended")
		}
		return a.probes(t) != nil
	})
}

// examplePlugins returns a folder with the example plugin that rows need.
func examplePlugins(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, exec.Command("cp", filepath.Join(bin, "plugins/tls-expiry.wasm"), dir))
	return dir
}

// config returns prober.yaml.
func (a *faultAgent) config() object {
	var groups []object
	for i, f := range a.faults {
		p := object{"period": "1s", "timeout": "10s", "failureThreshold": 1}
		maps.Copy(p, f.probe)
		groups = append(groups, object{"name": rowName(i), "static": []string{f.at}, "probe": p})
	}
	receiver := object{
		"name": "ops", "states": []string{"failure", "warning", "unknown"}, "for": "0s",
		"groupBy": []string{"pod"}, "groupWait": "0s", "groupInterval": "1s", "maxPerMinute": 600,
	}
	maps.Copy(receiver, a.receiver)
	return object{
		"apiVersion": "prober.dev/v1", "kind": "AgentConfig", "targets": groups, "notify": object{"receivers": []object{receiver}},
		"plugins": []object{
			{"name": "httpcheck", "grants": []string{"http://127.0.0.1:*", "https://127.0.0.1:*"}},
			{"name": "kafka", "grants": []string{"tcp://127.0.0.1:*"}},
		},
	}
}

// probes returns the probes of the API by their groups.
func (a *faultAgent) probes(t *testing.T) map[string]*api.ProbeStatus {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.socket)
	}}}
	resp, err := client.Get("http://agent/api/v1/probes")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var list struct{ Items []*api.ProbeStatus }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*api.ProbeStatus)
	for _, p := range list.Items {
		group, _, _ := strings.Cut(p.Pod, "-")
		all[group] = p
	}
	return all
}

// told returns the newest text in messages about a pod; "" if there is none.
func (a *faultAgent) told(pod string) (text string) {
	for d := json.NewDecoder(bytes.NewReader(a.messages())); ; {
		var m format.Message
		if d.Decode(&m) != nil {
			return text
		}
		for _, p := range m.Probes {
			if p.Pod == pod && p.Status == "failing" {
				text = p.Text
			}
		}
	}
}

// rowsTimeout is how long the verdicts of all rows of a service may take.
const rowsTimeout = 20 * time.Second

// check waits until the verdicts of all rows are right everywhere, and reports the rows that are not.
func (a *faultAgent) check(t *testing.T) {
	wrong := make(map[int]string) // by row
	for i := range a.faults {
		wrong[i] = "no verdict"
	}
	deadline := time.Now().Add(rowsTimeout)
	await(t, "the verdicts", func() bool {
		probes := a.probes(t)
		for i := range wrong {
			if wrong[i] = a.wrong(t, i, probes[rowName(i)]); wrong[i] == "" {
				delete(wrong, i)
			}
		}
		return len(wrong) == 0 || time.Now().After(deadline)
	})
	for i, f := range a.faults {
		t.Run(f.name, func(t *testing.T) {
			if wrong[i] != "" {
				t.Errorf("got  %s\nwant %s: %s", wrong[i], f.state, f.cause)
			}
		})
	}
}

// wrong returns what prober says of a row, and where, that differs from the table; "" if all of it is right.
func (a *faultAgent) wrong(t *testing.T, i int, p *api.ProbeStatus) string {
	if p == nil || p.Last == nil {
		return "no verdict"
	}
	f := &a.faults[i]
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.ReplaceAll(f.cause, "{AT}", f.at)), "…", ".*")
	cause := regexp.MustCompile("(?s)^" + pattern + "$")
	if f.state == "success" {
		if p.State != f.state || !cause.MatchString(strings.TrimSpace(p.Last.Output)) {
			return p.State + ": " + p.Last.Output + p.Cause
		}
		return ""
	}
	if p.State != f.state || !cause.MatchString(p.Cause) {
		return p.State + ": " + p.Cause
	}
	if told := a.told(p.Pod); !cause.MatchString(told) {
		return "in the notification: " + told
	}
	explained := run(t, exec.Command(filepath.Join(bin, "prober"), "explain", p.Pod, "--server", "unix:"+a.socket))
	if !regexp.MustCompile(`(?m)^  (Output|Error|Cause): +` + pattern + "$").MatchString(explained) {
		return "in prober explain: " + explained
	}
	return ""
}
