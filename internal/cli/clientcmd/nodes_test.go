package clientcmd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// cluster is an API server with the pods of agents, whose proxy calls a handler for each node.
type cluster struct {
	kubeconfig string
	mu         sync.Mutex
	asked      map[string][]string // requests by node
	tokens     []string            // headers of actions: Authorization, X-Prober-Token
}

const agents = "/api/v1/namespaces/prober-system/pods"

// newCluster starts a cluster. shop are the nodes of the pods of other namespaces, by their names.
func newCluster(t *testing.T, nodes map[string]http.Handler, shop map[string]string) *cluster {
	t.Helper()
	c := &cluster{asked: make(map[string][]string)}
	var items []string
	for name := range nodes {
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"prober-system","name":"prober-%s"},"spec":{"nodeName":%[1]q},"status":{"phase":"Running"}}`, name))
	}
	mux := http.NewServeMux()
	list := func(w http.ResponseWriter, items []string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[%s]}`, strings.Join(items, ","))
	}
	mux.HandleFunc("GET "+agents, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("labelSelector"); got != "app.kubernetes.io/name=prober,app.kubernetes.io/component=node" {
			t.Errorf("selector %s", got)
		}
		list(w, items)
	})
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		if node := shop[name]; node != "" {
			list(w, []string{fmt.Sprintf(`{"metadata":{"namespace":"default","name":%q},"spec":{"nodeName":%q}}`, name, node)})
			return
		}
		list(w, nil)
	})
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("namespace") == "secret" {
			refused(403, `pods is forbidden`).ServeHTTP(w, r)
			return
		}
		list(w, nil)
	})
	mux.HandleFunc(agents+"/{pod}/proxy/{path...}", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimSuffix(strings.TrimPrefix(r.PathValue("pod"), "prober-"), ":9876")
		c.mu.Lock()
		c.asked[name] = append(c.asked[name], r.Method+" /"+r.PathValue("path"))
		if r.Method == http.MethodPost {
			c.tokens = append(c.tokens, r.Header.Get("Authorization"), r.Header.Get("X-Prober-Token"))
		}
		c.mu.Unlock()
		http.StripPrefix(agents+"/"+r.PathValue("pod")+"/proxy", nodes[name]).ServeHTTP(w, r)
	})
	server := httptest.NewTLSServer(mux) // client-go sends credentials over TLS only
	t.Cleanup(server.Close)
	c.kubeconfig = kubeconfig(t, server.URL)
	return c
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"cluster"}}],
		"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *cluster) kubectl(args ...string) (code int, stdout, stderr string) {
	return clitest.Run(nil, append([]string{"kubectl", "--kubeconfig", c.kubeconfig}, args...)...)
}

// nodes returns the nodes that were asked.
func (c *cluster) nodes() (names []string) {
	for name := range c.asked {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const failingState = `"result":"failure","state":"failure"`

// probeOn returns a probe as an agent lists it.
func probeOn(pod, state string) string {
	return `{"namespace":"default","pod":"` + pod + `","uid":"u","container":"web","kind":"readiness","handler":"http",` + state + `,"run":1,"spec":{"period":"10s"},"last":null,"history":[]}`
}

// agentWith answers like an agent with these probes.
func agentWith(probes ...string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/probes", func(w http.ResponseWriter, r *http.Request) {
		var all []string
		for _, p := range probes {
			pod := r.URL.Query().Get("pod")
			if pod == "" || strings.Contains(p, `"pod":"`+pod+`"`) {
				all = append(all, p)
			}
		}
		fmt.Fprintf(w, `{"metadata":{},"items":[%s]}`, strings.Join(all, ","))
	})
	for pattern, answer := range map[string]string{
		"GET /api/v1/targets": `{"items":[]}`, "GET /api/v1/plugins": `{"items":[]}`, "GET /readyz": "[!]host probes are late\n",
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
	}
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/explain", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"probe":%s,"summary":"the first answer was 503","ticks":[]}`, probeOn(r.PathValue("pod"), failingState))
	})
	mux.HandleFunc("POST /api/v1/probes/{namespace}/{pod}/{container}/{kind}/pause", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[]}`)
	})
	return mux
}

func refused(status int, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"kind":"Status","status":"Failure","message":%q}`, message)
	})
}

func TestKubectlGetTellsPartialAnswers(t *testing.T) {
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for junk := strings.Repeat(" ", 1<<20); ; {
			if _, err := io.WriteString(w, junk); err != nil {
				return // the client has enough
			}
		}
	})
	endlessPages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"metadata":{"continue":"%s1"},"items":[%s]}`, r.URL.Query().Get("continue"), probeOn(strings.Repeat("x", 1<<20), failingState))
	})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, c := range []struct {
		name    string
		third   http.Handler
		cause   string
		hint    string
		timeout string
	}{
		{"slow", slow, "no response within 300ms", "", "300ms"},
		{"refused", refused(503, "error trying to reach service: connection refused"), "error trying to reach service: connection refused", "the component kubectl", "1m"},
		{"forbidden", refused(403, `pods "prober-c:9876" is forbidden: User "u" cannot get resource "pods/proxy"`), `cannot get resource "pods/proxy"`, "resources: [pods/proxy], verbs: [get]", "1m"},
		{"garbage", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }), "its response cannot be decoded", "", "1m"},
		{"endless", endless, "its responses are longer than 16 MiB", "", "1m"},
		{"endless pages", endlessPages, "its responses are longer than 16 MiB", "", "1m"},
		{"redirect", http.RedirectHandler("http://192.0.2.1/", http.StatusFound), "its response is a redirect", "", "1m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCluster(t, map[string]http.Handler{"a": agentWith(probeOn("shop", failingState)), "b": agentWith(probeOn("cart", failingState)), "c": c.third}, nil)
			code, stdout, stderr := k.kubectl("get", "probes", "-o", "json", "--request-timeout", c.timeout)
			var list struct {
				Items   []struct{ Node, Pod string }
				Partial bool
				Errors  []struct{ Node, Error string }
			}
			if err := json.Unmarshal([]byte(stdout), &list); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(list.Items); code != 3 || got != "[{a shop} {b cart}]" || !list.Partial || len(list.Errors) != 1 || list.Errors[0].Node != "c" || !strings.Contains(list.Errors[0].Error, c.cause) {
				t.Errorf("exit code %d, %+v", code, list)
			}
			if !strings.Contains(stderr, "prober: error: partial: 1 of 3 nodes did not answer\nprober: error:   c: ") || !strings.Contains(stderr, c.cause) || !strings.Contains(stderr, c.hint) {
				t.Errorf("stderr %s", stderr)
			}
		})
	}
}

// TestKubectlGetHasTheRowsOfAllNodes compares its rows with the rows of each agent, in all formats.
func TestKubectlGetHasTheRowsOfAllNodes(t *testing.T) {
	nodes := map[string]http.Handler{"a": agentWith(probeOn("shop", failingState), probeOn("db", `"result":"success","state":"success"`)), "b": agentWith(probeOn("cart", failingState))}
	k := newCluster(t, nodes, nil)
	rows := func(stdout string) (all []string) {
		for line := range strings.Lines(stdout) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		slices.Sort(all)
		return all
	}
	for _, format := range []string{"table", "wide", "name"} {
		var want []string
		for name, agent := range nodes {
			one := httptest.NewServer(agent)
			code, stdout, stderr := prober(one.URL, "get", "probes", "--no-headers", "-o", format)
			one.Close()
			if code != 0 {
				t.Fatal(stderr)
			}
			for _, row := range rows(stdout) {
				if format != "name" {
					row = name + " " + row
				}
				want = append(want, row)
			}
		}
		slices.Sort(want)
		code, stdout, stderr := k.kubectl("get", "probes", "--no-headers", "-o", format)
		if got := rows(stdout); code != 0 || stderr != "" || len(got) != 3 || !slices.Equal(got, want) {
			t.Errorf("%s: exit code %d, got %q, want %q, stderr %s", format, code, got, want, stderr)
		}
	}
	if code, stdout, _ := k.kubectl("get", "probes", "--node", "b", "-o", "name"); code != 0 || stdout != "probe/cart/web/readiness\n" {
		t.Errorf("--node: exit code %d, %s", code, stdout)
	}
	if code, _, stderr := k.kubectl("get", "probes", "--node", "b,z"); code != 3 || !strings.Contains(stderr, "  z: no agent runs on the node") {
		t.Errorf("--node z: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := k.kubectl("get", "probes", "cart", "gone"); code != 1 || !strings.Contains(stderr, "prober: error: no probe of gone\n") || strings.Contains(stderr, "cart") {
		t.Errorf("a missing name: exit code %d, %s", code, stderr)
	}
}

// TestKubectlBoundsRequests holds all requests until as many are in flight as --parallel allows.
func TestKubectlBoundsRequests(t *testing.T) {
	const nodes, parallel = 500, 7
	var inFlight, most, answered atomic.Int64
	full := make(chan struct{})
	var once sync.Once
	all := make(map[string]http.Handler)
	for i := range nodes {
		agent := agentWith(probeOn(fmt.Sprintf("shop-%d", i), failingState))
		all[fmt.Sprintf("n%03d", i)] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := inFlight.Add(1)
			defer inFlight.Add(-1)
			for {
				before := most.Load()
				if n <= before || most.CompareAndSwap(before, n) {
					break
				}
			}
			if n == parallel {
				once.Do(func() { close(full) })
			}
			select {
			case <-full:
			case <-r.Context().Done(): // fewer than parallel were sent at a time
			}
			answered.Add(1)
			agent.ServeHTTP(w, r)
		})
	}
	code, stdout, stderr := newCluster(t, all, nil).kubectl("get", "probes", "--no-headers", "--parallel", fmt.Sprint(parallel), "--request-timeout", "1m")
	if code != 0 || strings.Count(stdout, "\n") != nodes || answered.Load() != nodes || most.Load() != parallel {
		t.Errorf("exit code %d, %d rows, %d requests, %d at a time, stderr %s", code, strings.Count(stdout, "\n"), answered.Load(), most.Load(), stderr)
	}
}

func TestKubectlExplainAsksTheNodeOfThePod(t *testing.T) {
	nodes := map[string]http.Handler{"a": agentWith(probeOn("shop", failingState)), "b": agentWith(probeOn("cart", failingState))}
	for _, c := range []struct {
		args  []string
		asked string
		code  int
		want  string // in stdout or stderr
	}{
		{[]string{"cart"}, "[b]", 0, "Node b: default/cart/web readiness (http): failure\nthe first answer was 503\n"},
		{[]string{"cart/web/readiness"}, "[b]", 0, "Node b: "},
		{[]string{"shop", "-o", "json"}, "[a]", 0, `"node": "a",`},
		{[]string{"sh*"}, "[a b]", 0, "Node a: default/shop/web"},
		{[]string{"gone"}, "[a b]", 1, "no probe of gone"},
		{[]string{"secret/cart"}, "[a b]", 1, "no probe of secret/cart"}, // a user who may not list pods
		{[]string{"far"}, "[]", 3, "  z: no agent runs on the node"},
	} {
		k := newCluster(t, nodes, map[string]string{"shop": "a", "cart": "b", "far": "z"})
		code, stdout, stderr := k.kubectl(append([]string{"explain"}, c.args...)...)
		if got := fmt.Sprint(k.nodes()); code != c.code || got != c.asked || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%q: exit code %d, asked %s\n%s%s", c.args, code, got, stdout, stderr)
		}
	}
}

func TestKubectlPauseSendsTheTokenToTheAgentOnly(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	const secret = "0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := newCluster(t, map[string]http.Handler{"a": agentWith(probeOn("shop", failingState)), "b": agentWith(probeOn("cart", failingState))}, map[string]string{"cart": "b"})
	code, stdout, stderr := k.kubectl("pause", "cart", "--token-file", token, "--for", "10m")
	if code != 0 || stdout != "b: default/cart/web readiness paused\n" || fmt.Sprint(k.nodes()) != "[b]" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if want := []string{"Bearer cluster", secret}; !slices.Equal(k.tokens, want) {
		t.Errorf("headers %q, want %q", k.tokens, want)
	}
}

func TestKubectlAmbiguousNameChangesNothing(t *testing.T) {
	other := strings.NewReplacer(`"namespace":"default","pod":"cart"`, `"namespace":"shop","pod":"web"`).Replace(probeOn("cart", failingState))
	k := newCluster(t, map[string]http.Handler{"a": agentWith(probeOn("shop", failingState)), "b": agentWith(other)}, nil)
	code, _, stderr := k.kubectl("pause", "shop/web")
	if code != 64 || !strings.Contains(stderr, "shop/web is ambiguous: namespace shop, pod web, pod shop, container web") || len(k.tokens) > 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestKubectlTopCountsStates(t *testing.T) {
	k := newCluster(t, map[string]http.Handler{"a": agentWith(probeOn("shop", failingState), probeOn("db", `"result":"success","state":"success"`)), "b": refused(503, "no endpoints")}, nil)
	code, stdout, stderr := k.kubectl("top")
	want := "NODE PROBES FAILURE WARNING UNKNOWN PAUSED PROBLEM a 2 1 0 0 0 host: probes are late"
	if got := strings.Join(strings.Fields(stdout), " "); code != 3 || got != want || !strings.Contains(stderr, "  b: no endpoints") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestKubectlPlacesErrorsOfTheCluster(t *testing.T) {
	forbidden := httptest.NewServer(refused(403, `pods is forbidden: User "u" cannot list resource "pods"`))
	defer forbidden.Close()
	empty := newCluster(t, nil, nil)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--kubeconfig", "/nonexistent/kubeconfig"}, 64, "kubeconfig /nonexistent/kubeconfig: "},
		{[]string{"--kubeconfig", empty.kubeconfig, "--context", "other"}, 64, `context "other" does not exist`},
		{[]string{"--kubeconfig", empty.kubeconfig, "--parallel", "0"}, 64, "--parallel 0: must be from 1 to 256"},
		{[]string{"--kubeconfig", empty.kubeconfig, "--request-timeout", "0"}, 64, "--request-timeout 0s: must be more than 0"},
		{[]string{"--kubeconfig", empty.kubeconfig, "--agent-port", "0"}, 64, "--agent-port 0: must be from 1 to 65535"},
		{[]string{"--kubeconfig", empty.kubeconfig, "--token-file", "/nonexistent/token"}, 64, "--token-file: "},
		{[]string{"--kubeconfig", empty.kubeconfig}, 3, "the namespace prober-system has no pods of agents"},
		{[]string{"--kubeconfig", kubeconfig(t, forbidden.URL)}, 1, "a Role of the namespace prober-system needs the rule {apiGroups: [\"\"], resources: [pods], verbs: [list]}"},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"kubectl", "get", "probes"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s%s", c.args, code, stdout, stderr)
		}
	}
}

func TestKubectlSuggestsItsOwnCommands(t *testing.T) {
	code, _, stderr := clitest.Run(nil, "kubectl", "get", "probs")
	if code != 64 || !strings.Contains(stderr, `did you mean "prober kubectl get probes"?`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestKubectlActionTellsWhatTheUserLacks(t *testing.T) {
	for _, c := range []struct {
		status        int
		message, hint string
	}{
		{401, "needs the token of --token-file", "set --token-file to the file with the agents' token"},
		{403, `pods "prober-a:9876" is forbidden: User "u" cannot create resource "pods/proxy"`, "resources: [pods/proxy], verbs: [get]}, and the verb create for actions"},
	} {
		reads, refuses := agentWith(probeOn("shop", failingState)), refused(c.status, c.message)
		k := newCluster(t, map[string]http.Handler{"a": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				refuses.ServeHTTP(w, r)
				return
			}
			reads.ServeHTTP(w, r)
		})}, nil)
		code, stdout, stderr := k.kubectl("pause", "shop")
		if code != 1 || stdout != "" || !strings.Contains(stderr, "prober: error: a: "+c.message) || !strings.Contains(stderr, c.hint) {
			t.Errorf("%d: exit code %d, %s%s", c.status, code, stdout, stderr)
		}
	}
}
