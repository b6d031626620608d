package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/core/declared"
)

// list is any list of the API.
type list struct {
	Metadata struct {
		Continue           string
		RemainingItemCount *int64
	}
	Items []json.RawMessage
}

// names returns the identities of the items.
func (l *list) names(t *testing.T) (names []string) {
	t.Helper()
	for _, text := range l.Items {
		var item struct {
			Pod, Container, Kind string
			Metadata             struct{ Name string }
		}
		if err := json.Unmarshal(text, &item); err != nil {
			t.Fatal(err)
		}
		names = append(names, item.Metadata.Name+item.Pod+" "+item.Container+" "+item.Kind)
	}
	return names
}

// resting returns pods whose probes make no attempts during a test.
func resting(n int) (pods []*v1.Pod) {
	for i := range n {
		name := fmt.Sprintf("pod-%03d", i)
		pods = append(pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), Annotations: map[string]string{
				declared.Annotation: `web: {readiness: {tcpSocket: {port: 1}, initialDelay: 24h}, liveness: {exec: {command: ["true"]}, initialDelay: 24h}}`,
			}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}}},
		})
	}
	return pods
}

// withResting runs an agent with n resting pods.
func withResting(t *testing.T, n int) (*running, *agent.Memory) {
	source := agent.NewMemory(resting(n)...)
	r := start(t, "", func(c *agent.Config) { c.Source = source.Open })
	r.lines.await(t, 0, "pods applied")
	for i := range 7 { // events
		r.do("POST", fmt.Sprintf("/api/v1/probes/default/pod-%03d/web/readiness/pause", i))
	}
	return r, source
}

// pages returns the names of a list that is read page by page. It calls between after each page.
func (r *running) pages(path string, limit int, between func()) (names []string) {
	r.t.Helper()
	query := fmt.Sprintf("&limit=%d", limit)
	for {
		var page list
		r.get(path+query, &page)
		if len(page.Items) > limit {
			r.t.Fatalf("%s: %d items", path+query, len(page.Items))
		}
		names = append(names, page.names(r.t)...)
		if page.Metadata.Continue == "" {
			if page.Metadata.RemainingItemCount != nil {
				r.t.Errorf("%s: the last page has %+v", path, page.Metadata)
			}
			return names
		}
		query = fmt.Sprintf("&limit=%d&continue=%s", limit, url.QueryEscape(page.Metadata.Continue))
		between()
	}
}

func TestListsInPages(t *testing.T) {
	t.Parallel()
	r, _ := withResting(t, 9)
	for path, want := range map[string]int{
		"/api/v1/pods?namespace=": 9, "/api/v1/probes?namespace=": 18, "/api/v1/events?reason=ProbePaused": 7,
	} {
		var all list
		r.get(path, &all)
		if len(all.Items) != want || all.Metadata.Continue != "" {
			t.Errorf("%s has %d items, want %d", path, len(all.Items), want)
		}
		names := all.names(t)
		for _, limit := range []int{1, 3, 4, want, 1000} {
			got := r.pages(path, limit, func() {})
			if diff := cmp.Diff(names, got); diff != "" {
				t.Errorf("%s in pages of %d: %s", path, limit, diff)
			}
		}
		var first list
		if r.get(path+"&limit=2", &first); first.Metadata.RemainingItemCount == nil || *first.Metadata.RemainingItemCount != int64(want-2) {
			t.Errorf("%s: %+v, want %d items to remain", path, first.Metadata, want-2)
		}
	}
}

// Items that exist during all requests are listed once, although others are added and removed.
func TestPagesOfChangingList(t *testing.T) {
	t.Parallel()
	r, source := withResting(t, 20)
	all := resting(40)
	kept, rest := all[5:15], slices.Concat(all[:5], all[15:])
	step := 0
	got := r.pages("/api/v1/pods?namespace=", 3, func() {
		step++
		source.Set(append(slices.Clone(kept), rest[min(step, len(rest)):min(3*step, len(rest))]...)...)
		r.reload()
	})
	for _, pod := range kept {
		n := 0
		for _, name := range got {
			n += strings.Count(name, pod.Name)
		}
		if n != 1 {
			t.Errorf("%s is listed %d times", pod.Name, n)
		}
	}
}

// A list without a limit equals the JSON of the Kubernetes type.
func TestListsEqualKubernetesJSON(t *testing.T) {
	t.Parallel()
	r, _ := withResting(t, 3)
	for path, list := range map[string]any{
		"/api/v1/pods": &v1.PodList{}, "/api/v1/events": &v1.EventList{}, "/api/v1/pods?pod=none": &v1.PodList{}, "/api/v1/events?reason=none": &v1.EventList{},
	} {
		_, body := r.do("GET", path)
		decoder := json.NewDecoder(strings.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(list); err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := json.NewEncoder(&again).Encode(list); err != nil || again.String() != body {
			t.Errorf("%s: got %s\nwant %s", path, body, again.String())
		}
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	r, _ := withResting(t, 9)
	for path, want := range map[string]int{
		"/api/v1/pods?pod=pod-004":                                           1,
		"/api/v1/pods?namespace=other":                                       0,
		"/api/v1/pods?namespace=default&limit=4":                             4,
		"/api/v1/probes?handler=tcp":                                         9,
		"/api/v1/probes?handler=exec&pod=pod-001":                            1,
		"/api/v1/probes?result=success":                                      9, // liveness is a success before the first attempt
		"/api/v1/probes?result=failure&kind=readiness&container=web":         9,
		"/api/v1/probes?result=failure&kind=liveness":                        0,
		"/api/v1/probes?namespace=default&result=failure&limit=5":            5,
		"/api/v1/events?pod=pod-003":                                         1,
		"/api/v1/events?container=web&reason=ProbePaused&type=Normal":        7,
		"/api/v1/events?container=eb":                                        0,
		"/api/v1/events?type=Warning&pod=pod-001":                            0,
		"/api/v1/events?namespace=default&container=web&pod=pod-001&limit=0": 1,
	} {
		var got list
		if r.get(path, &got); len(got.Items) != want {
			t.Errorf("%s: %d items, want %d", path, len(got.Items), want)
		}
	}
	var pods list
	r.get("/api/v1/pods?limit=1", &pods)
	for path, want := range map[string]string{
		"/api/v1/pods?name=x":                               `unknown parameter \"name\"; known: continue, limit, namespace, pod`,
		"/api/v1/events?kind=x":                             `unknown parameter \"kind\"; known: container, continue, limit, namespace, pod, reason, type`,
		"/api/v1/probes?result=ok":                          `unknown result \"ok\"; known: failure, success, unknown`,
		"/api/v1/pods?limit=-1":                             `limit \"-1\" must be an integer, at least 0`,
		"/api/v1/pods?limit=9999999999":                     `limit \"9999999999\" must be`,
		"/api/v1/pods?continue=x":                           "continue must be a metadata.continue of this list",
		"/api/v1/probes?continue=" + pods.Metadata.Continue: "continue must be a metadata.continue of this list",
		"/api/v1/pods?pod=a&pod=b":                          `parameter \"pod\" is set 2 times`,
	} {
		if status, body := r.do("GET", path); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
	}
}

// The list of a pod's probes equals the part of the whole list with the pod's name, in the same order.
func TestProbesOfPodEqualPartOfList(t *testing.T) {
	t.Parallel()
	source := agent.NewMemory()
	r := start(t, "", func(c *agent.Config) { c.Source = source.Open })
	r.lines.await(t, 0, "pods applied")
	pods := resting(3)
	same, replaced := pods[1].DeepCopy(), pods[1].DeepCopy()
	same.Namespace, same.UID = "other", "uid-other"
	replaced.UID = "uid-replaced"
	for _, desired := range [][]*v1.Pod{pods, append(pods, same), {pods[0], same, replaced}, {pods[1]}, {}} {
		source.Set(desired...)
		r.reload()
		var all list
		r.get("/api/v1/probes", &all)
		if len(all.Items) != 2*len(desired) {
			t.Fatalf("%d probes of %d pods", len(all.Items), len(desired))
		}
		for _, path := range []string{"pod=pod-000", "pod=pod-001", "pod=pod-002", "pod=pod", "pod=pod-001&namespace=default", "pod=pod-001&kind=liveness", "pod=pod-001&container=none"} {
			query, err := url.ParseQuery(path)
			if err != nil {
				t.Fatal(err)
			}
			var want, got list
			for _, text := range all.Items {
				var item map[string]any
				if err := json.Unmarshal(text, &item); err != nil {
					t.Fatal(err)
				}
				matches := true
				for name := range query {
					matches = matches && item[name] == query.Get(name)
				}
				if matches {
					want.Items = append(want.Items, text)
				}
			}
			r.get("/api/v1/probes?"+path, &got)
			if diff := cmp.Diff(want.names(t), got.names(t)); diff != "" {
				t.Errorf("%d pods, %s: %s", len(desired), path, diff)
			}
		}
	}
}

// The client reads all pages of a list.
func TestClientReadsAllPages(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "s")
	r := start(t, "", func(c *agent.Config) { c.Source, c.Socket = agent.NewMemory(resting(501)...).Open, socket })
	r.lines.await(t, 0, "pods applied")
	c, err := client.New(client.Config{Server: "unix:" + socket})
	if err != nil {
		t.Fatal(err)
	}
	probes, err := c.Probes(t.Context(), client.Filter{Namespace: "default"})
	if err != nil || len(probes) != 1002 || probes[1001].Pod != "pod-500" {
		t.Errorf("%d probes, %v", len(probes), err)
	}
	if probes, err = c.Probes(t.Context(), client.Filter{Handler: "tcp", Result: "failure"}); err != nil || len(probes) != 501 {
		t.Errorf("%d probes, %v", len(probes), err)
	}
	var pods v1.PodList
	if err := c.Pods(t.Context(), &pods); err != nil || len(pods.Items) != 501 || pods.Kind != "PodList" || pods.Continue != "" {
		t.Errorf("%d pods, %+v, %v", len(pods.Items), pods.ListMeta, err)
	}
}

// A probe's status shows why it makes no attempts.
func TestGateIsShown(t *testing.T) {
	t.Parallel()
	pod := memoryPod("one", newTarget(t), "")
	pod.Annotations[declared.Annotation] += "\nlate: {readiness: {tcpSocket: {port: 1}, initialDelay: 24h}}"
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "late"})
	r := start(t, "", func(c *agent.Config) { c.Source = agent.NewMemory(pod).Open })
	events := r.stream()
	awaitProbe(t, events, "ready", func(p *streamedProbe) bool { return p.Container == "web" && ready(p) && p.Gate == "" })
	awaitProbe(t, events, "a delay", func(p *streamedProbe) bool {
		return p.Container == "late" && strings.HasPrefix(p.Gate, "initial delay, ") && strings.HasSuffix(p.Gate, " left")
	})
	r.do("POST", "/api/v1/probes/default/one/web/readiness/pause")
	awaitProbe(t, events, "a pause", func(p *streamedProbe) bool { return p.Container == "web" && p.Gate == "paused" })
	var probes struct{ Items []streamedProbe }
	r.get("/api/v1/probes?container=web", &probes)
	if p := probes.Items[0]; p.Gate != "paused" {
		t.Errorf("got %+v", p)
	}
}
