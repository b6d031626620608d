package declared_test

import (
	"errors"
	"time"

	"github.com/daeace23/prober/core/internal/podtest"
)

const ms = time.Millisecond

var errNoSecret = errors.New("no such secret")

// resolveSecret resolves a single secret.
func resolveSecret(source, name string) (string, error) {
	if source != "env" || name != "TOKEN" {
		return "", errNoSecret
	}
	return "hunter2-token", nil
}

var (
	execProbe = podtest.Exec
	container = podtest.Container
	sidecar   = podtest.Sidecar
	podOf     = podtest.Pod
	annotated = podtest.Annotated
)
