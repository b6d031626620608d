package guest

import (
	"testing"

	"github.com/daeace23/prober/internal/abi"
)

func TestEveryImportHasAFunction(t *testing.T) {
	for _, f := range abi.Imports() {
		if hostFuncs(f.Module)[f.Name] == nil {
			t.Errorf("%s.%s has no function", f.Module, f.Name)
		}
	}
}
