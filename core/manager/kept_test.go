package manager_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/manager"
)

var someTime = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC))

// fill sets every field of v, and one element of each slice and map.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(someTime))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("5")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}

// everyStatus returns statuses with a single field, with a single field of a container, and with all
// fields.
func everyStatus() map[string]v1.PodStatus {
	all := map[string]v1.PodStatus{"zero": {}, "empty lists": {
		Conditions: []v1.PodCondition{}, ContainerStatuses: []v1.ContainerStatus{}, InitContainerStatuses: []v1.ContainerStatus{},
	}}
	var full v1.PodStatus
	fill(reflect.ValueOf(&full).Elem())
	all["full"] = full
	for i := range reflect.TypeFor[v1.PodStatus]().NumField() {
		var s v1.PodStatus
		fill(reflect.ValueOf(&s).Elem().Field(i))
		all[reflect.TypeFor[v1.PodStatus]().Field(i).Name] = s
	}
	add := func(name string, of reflect.Type, in func(*v1.ContainerStatus) reflect.Value) {
		for i := range of.NumField() {
			running := v1.ContainerStatus{Name: "a", ContainerID: "c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: someTime}}}
			bare := v1.ContainerStatus{Name: "b"}
			fill(in(&running).Field(i))
			fill(in(&bare).Field(i))
			all[name+of.Field(i).Name] = v1.PodStatus{
				Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{running, {}}, InitContainerStatuses: []v1.ContainerStatus{bare},
			}
		}
	}
	add("container ", reflect.TypeFor[v1.ContainerStatus](), func(c *v1.ContainerStatus) reflect.Value { return reflect.ValueOf(c).Elem() })
	add("state ", reflect.TypeFor[v1.ContainerState](), func(c *v1.ContainerStatus) reflect.Value { return reflect.ValueOf(&c.State).Elem() })
	return all
}

func TestStatusStoreReturnsWhatWasSet(t *testing.T) {
	pod := podOf("u", container("a"))
	for name, status := range everyStatus() {
		t.Run(name, func(t *testing.T) {
			var store manager.StatusStore
			var published, later *v1.PodStatus
			defer store.WatchStatus(pod.UID, func(s *v1.PodStatus) { published = s })()
			want := *status.DeepCopy()
			store.SetPodStatus(pod, status)
			defer store.WatchStatus(pod.UID, func(s *v1.PodStatus) { later = s })()
			clear(status.ContainerStatuses) // the store must have a copy
			clear(status.InitContainerStatuses)
			clear(status.Conditions)
			got, ok := store.PodStatus(pod.UID)
			if !ok {
				t.Fatal("no status")
			}
			for name, s := range map[string]v1.PodStatus{"PodStatus": got, "published": *published, "published to a new watcher": *later} {
				if !reflect.DeepEqual(s, want) {
					t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, s))
				}
			}
		})
	}
}
