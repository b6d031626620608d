package manager_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// references records the objects that events refer to.
type references chan *v1.ObjectReference

func (r references) Event(object runtime.Object, _, _, _ string) { r <- object.(*v1.ObjectReference) }

func TestEventReferenceResourceVersion(t *testing.T) {
	bubble(t, "event refers to the resource version of the added pod", func(t *testing.T) {
		refs := make(references, 10)
		r := newRig(t, herd, func(cfg *manager.Config) { cfg.Recorder = refs })
		r.always(probetest.NewHandler(failure))
		pod := podOf("u", container("web", probe.Liveness))
		pod.ResourceVersion = "42"
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		if got := <-refs; got.ResourceVersion != "42" || got.UID != "u" || got.FieldPath != "spec.containers{web}" {
			t.Errorf("got %+v", got)
		}
	})
}
