package clientcmd_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// fleet answers for some probes and their pods. Actions on the pod stuck fail.
func fleet(t *testing.T) (server string, acted *[]string) {
	t.Helper()
	acted = new([]string)
	probes := probesOf("prod/shop-web/web/readiness", "prod/shop-web/web/liveness", "prod/shop-db/db/readiness", "test/shop-web/web/readiness",
		"prod/cart/web/readiness", "prod/stuck/web/readiness", "targets/web-a/target/readiness")
	answers := map[string]string{
		"/api/v1/pods": `{"items":[
			{"metadata":{"namespace":"prod","name":"shop-web","labels":{"app":"shop","tier":"web"}}},
			{"metadata":{"namespace":"prod","name":"shop-db","labels":{"app":"shop","tier":"db"}}},
			{"metadata":{"namespace":"test","name":"shop-web","labels":{"app":"shop","tier":"web"}}},
			{"metadata":{"namespace":"prod","name":"cart","labels":{"app":"cart"}}},
			{"metadata":{"namespace":"prod","name":"stuck"}},
			{"metadata":{"namespace":"targets","name":"web-a","labels":{"env":"prod","prober.dev/target-group":"web"}}}]}`,
		"/api/v1/targets": `{"items":[
			{"group":"web","name":"a","address":"https://a.example/ready","state":"probed","namespace":"targets","pod":"web-a","labels":{"env":"prod","team":"Web Team"}},
			{"group":"web","name":"b","address":"https://b.example/ready","state":"dropped","labels":{"env":"test"},"reason":"dropped by relabel[0]"}]}`,
		"/api/v1/events": `{"items":[]}`, "/readyz": "",
		"/api/v1/endpoints": `{"items":[{"namespace":"prod","name":"cart","type":"endpoint","state":"failure"},{"namespace":"prod","name":"shop-web","type":"push","state":"success"}]}`,
	}
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			*acted = append(*acted, strings.TrimPrefix(r.URL.Path, "/api/v1/probes/"))
			if strings.Contains(r.URL.Path, "/stuck/") {
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, `{"error":"it is gone"}`)
				return
			}
		}
		if answer, ok := answers[r.URL.Path]; ok && r.URL.Query().Get("pod") == "" {
			_, _ = io.WriteString(w, answer)
			return
		}
		probes(w, r)
	}))
	t.Cleanup(a.Close)
	return a.URL, acted
}

func TestActionsOnSeveral(t *testing.T) {
	server, acted := fleet(t)
	for _, c := range []struct {
		args   string
		code   int
		stdout string // lines joined by ", ", without the action
		stderr string // a part
	}{
		{"shop-*", 0, "prod/shop-web/web readiness, prod/shop-web/web liveness, prod/shop-db/db readiness, test/shop-web/web readiness", "4 probes paused\n"},
		{"shop-* -n test", 0, "test/shop-web/web readiness", ""},
		{"shop-* -A readiness", 0, "prod/shop-web/web readiness, prod/shop-db/db readiness, test/shop-web/web readiness", "3 probes paused\n"},
		{"*/cart", 0, "prod/cart/web readiness", ""},
		{"cart prod/shop-db", 0, "prod/shop-db/db readiness, prod/cart/web readiness", "2 probes paused\n"},
		{"cart cart c?rt", 0, "prod/cart/web readiness", ""},
		{"cart https://a.example/ready", 0, "prod/cart/web readiness, targets/web-a/target readiness", "2 probes paused\n"},
		{"https://*", 0, "targets/web-a/target readiness", ""},
		{"web", 0, "targets/web-a/target readiness", ""},
		{"target/web -n targets", 0, "targets/web-a/target readiness", ""},
		{"web cart", 0, "prod/cart/web readiness, targets/web-a/target readiness", "2 probes paused\n"},
		{"web -n prod", 1, "", "no probe of web in namespace prod\n"},
		{"cart nosuch shop-dbx", 1, "prod/cart/web readiness", "prober: error: no probe of nosuch\nprober: error: no probe of shop-dbx\nprober: hint: did you mean shop-db?"},
		{"stuck cart", 1, "prod/cart/web readiness", "1 of 2 probes paused\nprober: error: "},
		{"stuck cart", 1, "prod/cart/web readiness", "it is gone\n"},
		{"-l app=shop,tier!=db", 0, "prod/shop-web/web readiness, prod/shop-web/web liveness, test/shop-web/web readiness", "3 probes paused\n"},
		{"-l app=shop,tier!=db readiness", 0, "prod/shop-web/web readiness, test/shop-web/web readiness", "2 probes paused\n"},
		{"-l tier --kind liveness", 0, "prod/shop-web/web liveness", ""},
		{"-l env=prod", 0, "targets/web-a/target readiness", ""},
		{"-l app=none", 1, "", "no probe of the agent with the labels app=none\nprober: hint: prober get probes lists them\n"},
		{"shop-* -l tier=db", 0, "prod/shop-db/db readiness", ""},
		{"--all -n test", 0, "test/shop-web/web readiness", ""},
		{"--all -n test -A liveness", 0, "prod/shop-web/web liveness", ""},
		{"--all cart", 64, "", "--all: names are given too: cart\nprober: hint: prober pause cart --server "},
		{"shop-web cart readyness", 64, "", "unknown kind \"readyness\"; known: liveness, readiness, startup\nprober: hint: prober pause shop-web cart readiness --server "},
		{"shop-web liveness cart", 64, "", "prober: hint: prober pause shop-web cart liveness --server "},
		{"zzz*", 1, "", "no probe of zzz*\nprober: hint: prober get probes lists them"},
		{"b", 1, "", "no probe of b: the target b of group web is dropped: dropped by relabel[0]\n"},
		{"[x", 1, "", "no probe of [x\n"},
	} {
		*acted = nil
		code, stdout, stderr := prober(server, append([]string{"pause"}, strings.Fields(c.args)...)...)
		got := strings.TrimSuffix(strings.ReplaceAll(stdout, " paused\n", ", "), ", ")
		if code != c.code || got != c.stdout || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d, %s\n%s", c.args, code, got, stderr)
		}
		if code == 0 && len(*acted) != strings.Count(stdout, "\n") {
			t.Errorf("%s: acted on %q", c.args, *acted)
		}
	}
}

func TestSelectorOperators(t *testing.T) {
	server, _ := fleet(t)
	for selector, want := range map[string]string{
		"tier in (db,cache)": "prod/shop-db", "tier notin (db),app=shop": "prod/shop-web,prod/shop-web,test/shop-web", "!app,!env": "prod/stuck", "app==cart": "prod/cart",
		"prober.dev/target-group=web": "targets/web-a",
	} {
		_, stdout, stderr := prober(server, "get", "probes", "-l", selector, "-o", `jsonpath={range .items[*]}{.namespace}/{.pod},{end}`)
		if got := strings.TrimSuffix(strings.TrimSpace(stdout), ","); got != want {
			t.Errorf("%s: %s %s", selector, got, stderr)
		}
	}
}

func TestDryRunActsOnNothing(t *testing.T) {
	server, acted := fleet(t)
	for _, c := range []struct{ args, stdout, stderr string }{
		{"pause stuck cart --dry-run", "prod/cart/web readiness paused (dry run)\nprod/stuck/web readiness paused (dry run)\n", "2 probes paused (dry run)\n"},
		{"force -l app=shop drained --dry-run -n test", "test/shop-web/web readiness forced (dry run)\n", ""},
		{"trigger cart --dry-run", "prod/cart/web readiness triggered (dry run)\n", ""},
	} {
		code, stdout, stderr := prober(server, strings.Fields(c.args)...)
		if code != 0 || stdout != c.stdout || stderr != c.stderr || len(*acted) > 0 {
			t.Errorf("%s: exit code %d, %s%s, acted on %q", c.args, code, stdout, stderr, *acted)
		}
	}
}

func TestForceSelectsReadinessOnly(t *testing.T) {
	server, acted := fleet(t)
	code, stdout, stderr := prober(server, "force", "shop-web", "cart", "down", "-n", "prod")
	if code != 0 || stdout != "prod/shop-web/web readiness forced\nprod/cart/web readiness forced\n" || stderr != "2 probes forced\n" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if want := "prod/shop-web/web/readiness/force prod/cart/web/readiness/force"; strings.Join(*acted, " ") != want {
		t.Errorf("acted on %q", *acted)
	}
}

func TestListsSelect(t *testing.T) {
	server, _ := fleet(t)
	for _, c := range []struct {
		args string
		code int
		want string // names, or a part of stderr
	}{
		{"get probes shop-* -l tier=db -o name", 0, "probe/shop-db/db/readiness"},
		{"get probes -A -n test cart -o name", 0, "probe/cart/web/readiness"},
		{"get pods s* cart -n prod -o name", 0, "pod/shop-web pod/shop-db pod/cart pod/stuck"},
		{"get pods pod/c* -o name", 0, "pod/cart"},
		{"get pods x* -o name", 1, "prober: error: pods not found: x*\nprober: hint: prober get pods lists them"},
		{"get pods crt -o name", 1, "prober: error: pods not found: crt\nprober: hint: did you mean cart? prober get pods lists them"},
		{"get targets -l env=prod -o name", 0, "target/web-a"},
		{"get targets -l team -o name", 0, "target/web-a"},
		{"get targets https://* -l prober.dev/target-group=web,env!=prod -o name", 0, "target/web/b"},
		{"get endpoints -l app -o name", 0, "endpoint/cart endpoint/shop-web"},
		{"get endpoints -l app=cart -o name", 0, "endpoint/cart"},
		{"get endpoints sh* -o name", 0, "endpoint/shop-web"},
		{"get probes shop-w", 1, "prober: error: no probe of shop-w\nprober: hint: did you mean shop-db, shop-web? prober get probes lists them"},
		{"get probes shop", 1, "prober: error: no probe of shop\nprober: hint: did you mean 'shop*', shop-db, shop-web? prober get probes lists them"},
	} {
		code, stdout, stderr := prober(server, strings.Fields(c.args)...)
		got := strings.Join(strings.Fields(stdout), " ")
		if code != c.code || got != c.want && (code == 0 || !strings.Contains(stderr, c.want)) {
			t.Errorf("%s: exit code %d, %s %s", c.args, code, got, stderr)
		}
	}
}

func TestEndpointsAreWatched(t *testing.T) {
	checks := []string{`"checks":[]`, `"checks":[{"state":"success"}]`}
	listed := 0
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/endpoints":
			_, _ = io.WriteString(w, `{"items":[{"namespace":"a","name":"shop","type":"endpoint","state":"success",`+checks[min(listed, 1)]+`}]}`)
			listed++
		case "/api/v1/stream":
			own := `probe {"namespace":"a","pod":"shop","container":"endpoint","kind":"readiness","handler":"endpoint"`
			_, _ = io.WriteString(w, stream(`probe {"namespace":"a","pod":"other","container":"web","kind":"readiness","handler":"http"}`, own+"}", own+`,"run":3}`, own+`,"removed":true}`))
		}
	}))
	defer a.Close()
	_, stdout, stderr := prober(a.URL, "get", "endpoints", "-w", "--no-headers")
	var rows []string
	for row := range strings.Lines(stdout) {
		rows = append(rows, strings.Join(strings.Fields(row), " "))
	}
	if got, want := strings.Join(rows, "; "), "shop endpoint success - 0/0 -; shop endpoint success - 1/1 -; shop endpoint - - 0/0 -"; got != want {
		t.Errorf("got %s, want %s\n%s", got, want, stderr)
	}
}
