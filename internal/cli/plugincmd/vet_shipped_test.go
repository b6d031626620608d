package plugincmd_test

import (
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/clitest"
)

func TestPluginVetOfShippedPlugins(t *testing.T) {
	for _, name := range shipped.Names() {
		if code, stdout, stderr := clitest.Run(nil, "plugin", "vet", filepath.Join("../../../handlers/shipped", name)); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
}
