package engine_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// stallEnv is set in the child process that TestStoppedAgent runs as an agent. Its value is the Compat.
const stallEnv = "PROBER_TEST_STALL"

func TestMain(m *testing.M) {
	if compat := os.Getenv(stallEnv); compat != "" {
		stalledAgent(compat)
		return
	}
	goleak.VerifyTestMain(m)
}
