package results_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/core/results"
)

// pod is the subject of the results.
var pod = results.Subject{Namespace: "ns", Pod: "web", PodUID: "uid", Container: "app"}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
