package kubelettests

import (
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubelet "k8s.io/kubernetes/pkg/kubelet/prober/results"

	ours "github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// cache has the methods of both sides' caches. Results are the kubelet's numbers.
type cache struct {
	set    func(id string, result int)
	remove func(id string)
	get    func(id string) (result int, ok bool)
	unread func() string // reads an update; "" if there is none
}

func kubeletCache() (c cache, done func()) {
	m, pod := kubelet.NewManager(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	return cache{
		set:    func(id string, r int) { m.Set(kubecontainer.ParseContainerID(id), kubelet.Result(r), pod) },
		remove: func(id string) { m.Remove(kubecontainer.ParseContainerID(id)) },
		get: func(id string) (int, bool) {
			r, ok := m.Get(kubecontainer.ParseContainerID(id))
			return int(r), ok
		},
		unread: func() string {
			select {
			case u := <-m.Updates():
				return fmt.Sprint(u.ContainerID.String(), " ", u.Result, " ", u.PodUID)
			default:
				return ""
			}
		},
	}, func() {}
}

// ourResult returns our result for a number of the kubelet's. The zero value is Success for the kubelet, and
// Unknown for us.
func ourResult(number int) ours.Result { return ours.Success + ours.Result(number) }

func ourCache() (c cache, done func()) {
	m, subject := ours.New(probe.Liveness), &ours.Subject{PodUID: string(uid)}
	updates := m.Updates()
	return cache{
		set:    func(id string, r int) { m.Set(id, ourResult(r), subject, ours.Cause{}) },
		remove: m.Remove,
		get: func(id string) (int, bool) {
			r, ok := m.Get(id)
			return int(r.ToPrometheusType()), ok
		},
		unread: func() string {
			synctest.Wait()
			select {
			case u := <-updates:
				if u.Removed {
					return fmt.Sprint(u.ContainerID, " removed")
				}
				return fmt.Sprint(u.ContainerID, " ", u.Result, " ", u.PodUID)
			default:
				return ""
			}
		},
	}, m.Close
}

func TestCaches(t *testing.T) {
	const success, failure = 0, 1
	for side, make := range map[string]func() (cache, func()){"kubelet": kubeletCache, "ours": ourCache} {
		run := func(name string, f func(t *testing.T, c cache)) {
			t.Run(name+"/"+side, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, done := make()
					defer done()
					f(t, c)
				})
			})
		}
		run("#89 get, set and remove", func(t *testing.T, c cache) {
			if _, ok := c.get("test://unset"); ok {
				t.Error("a result that was never set")
			}
			c.set("test://set", success)
			if r, ok := c.get("test://set"); r != success || !ok {
				t.Errorf("got %v, %v", r, ok)
			}
			c.remove("test://set")
			if _, ok := c.get("test://set"); ok {
				t.Error("a result that was removed")
			}
		})
		run("#90 #91 #92 updates", func(t *testing.T, c cache) {
			for _, step := range []struct {
				id     string
				result int
				want   string
			}{
				{"test://foo", success, "test://foo Success uid"},
				{"test://bar", failure, "test://bar Failure uid"},
				{"test://foo", success, ""},
				{"test://bar", failure, ""},
				{"test://foo", failure, "test://foo Failure uid"},
				{"test://bar", success, "test://bar Success uid"},
			} {
				c.set(step.id, step.result)
				if got := c.unread(); got != step.want {
					t.Errorf("%s is %d: update %q, want %q", step.id, step.result, got, step.want)
				}
			}
		})
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		result int
		number float64
		text   string
	}{
		{"#93 #94 Success", 0, 0, "Success"},
		{"#93 #94 Failure", 1, 1, "Failure"},
		{"#93 #94 any other", 123, -1, "UNKNOWN"},
		{"#94 any other below", -123, -1, "UNKNOWN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for side, r := range map[string]interface {
				fmt.Stringer
				ToPrometheusType() float64
			}{"kubelet": kubelet.Result(c.result), "ours": ourResult(c.result)} {
				if r.String() != c.text || r.ToPrometheusType() != c.number {
					t.Errorf("%s: %v, %v", side, r, r.ToPrometheusType())
				}
			}
		})
	}
}
