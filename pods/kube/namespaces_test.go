package kube_test

import (
	"errors"
	"maps"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/daeace23/prober/config"
)

// spaces is a fake API server with namespaces.
type spaces struct {
	mu      sync.Mutex
	version int
	labels  map[string]map[string]string
	watcher *watch.RaceFreeFakeWatcher
	down    error
}

func (s *spaces) object(name string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(s.labels[name]), ResourceVersion: strconv.Itoa(s.version)}}
}

func (s *spaces) List(metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &v1.NamespaceList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for name := range s.labels {
		list.Items = append(list.Items, *s.object(name))
	}
	return list, s.down
}

func (s *spaces) Watch(o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	s.watcher = watch.NewRaceFreeFake()
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		for name := range s.labels {
			s.watcher.Add(s.object(name))
		}
		s.watcher.Action(watch.Bookmark, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(s.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	return s.watcher, nil
}

// set changes the labels of a namespace, or removes it without labels.
func (s *spaces) set(name string, labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	old := s.object(name)
	if labels == nil {
		delete(s.labels, name)
		s.watcher.Delete(old)
		return
	}
	_, known := s.labels[name]
	if s.labels[name] = labels; known {
		s.watcher.Modify(s.object(name))
	} else {
		s.watcher.Add(s.object(name))
	}
}

// The probes of pods have the labels of their namespace that the policy names, and follow their changes. The pod that
// an action gets has its own.
func TestPodsHaveLabelsOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &spaces{version: 1, labels: map[string]map[string]string{"shop": {"team": "pay", "cost": "7"}, "other": {"team": "x"}}}
		w := newWorld(t, func(w *world) {
			w.cfg.Policy = config.DefaultKubernetes()
			w.cfg.Policy.NamespaceLabels = []string{"team", "tier"}
			w.cfg.Namespaces = all
		})
		pod := podNamed("web", `{web: {liveness: {httpGet: {port: 8080}, period: 1s}}}`)
		pod.Namespace, pod.Labels = "shop", map[string]string{"app": "web", "team": "mine"}
		w.cluster.set(pod)
		w.start()
		defer w.end()
		check := func(when string, want map[string]string) {
			t.Helper()
			w.wait(time.Minute)
			shown := w.source.Pods()
			if len(shown) != 1 || !maps.Equal(shown[0].Labels, want) {
				t.Errorf("%s: %+v, want %v", when, shown, want)
			}
		}
		check("first", map[string]string{"app": "web", "team": "pay"})
		all.set("shop", map[string]string{"tier": "1"})
		check("changed", map[string]string{"app": "web", "team": "mine", "tier": "1"})
		all.set("shop", nil)
		check("removed", map[string]string{"app": "web", "team": "mine"})
		all.set("shop", map[string]string{"team": "new"})
		check("back", map[string]string{"app": "web", "team": "new"})
		if got := w.actor.Current(pod.UID).Labels; !maps.Equal(got, pod.Labels) {
			t.Errorf("an action gets the labels %v", got)
		}
	})
}

// Pods are probed if namespaces cannot be read.
func TestNamespacesCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &spaces{version: 1, labels: map[string]map[string]string{"shop": {"team": "pay"}}, down: errors.New("forbidden")}
		w := newWorld(t, func(w *world) {
			w.cfg.Policy = config.DefaultKubernetes()
			w.cfg.Policy.NamespaceLabels = []string{"team"}
			w.cfg.Namespaces = all
		})
		pod := podNamed("web", `{web: {readiness: {httpGet: {port: 8080}, period: 1s}}}`)
		pod.Namespace = "shop"
		w.cluster.set(pod)
		w.start()
		defer w.end()
		w.wait(time.Minute)
		if troubles := w.source.ForAgent().Troubles(); len(w.conditionsOf("web")) == 0 || len(troubles) != 1 || troubles[0].Name != "namespaces" {
			t.Errorf("conditions %v, %+v", w.conditionsOf("web"), troubles)
		}
		all.mu.Lock()
		all.down = nil
		all.mu.Unlock()
		w.wait(5 * time.Minute)
		if shown, troubles := w.source.Pods(), w.source.ForAgent().Troubles(); len(shown) != 1 || shown[0].Labels["team"] != "pay" || len(troubles) > 0 {
			t.Errorf("%+v, %+v", shown, troubles)
		}
	})
}
