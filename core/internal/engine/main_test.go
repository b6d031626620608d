package engine_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// stallEnv makes the test binary the agent that TestStoppedAgent stops; its value is
// the Compat.
const stallEnv = "PROBER_TEST_STALL"

func TestMain(m *testing.M) {
	if compat := os.Getenv(stallEnv); compat != "" {
		stalledAgent(compat)
		return
	}
	goleak.VerifyTestMain(m)
}
