package local_test

import (
	"testing"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/pods/local"
)

func TestApplyBeforeStart(t *testing.T) {
	pods, err := local.New(local.Config{}, testHost())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manager.New(manager.Config{Status: pods, Handlers: &handlers.Registry{}}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Apply(t.Context(), nil); err == nil {
		t.Error("no error")
	}
	if err := pods.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := local.New(local.Config{RestartBackoff: -1}, testHost()); err == nil {
		t.Error("a negative back-off is taken")
	}
}
