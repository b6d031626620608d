package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daeace23/prober/plugin"
)

// vetImports says where what a module imports is not what its manifest asks for.
func vetImports(imports map[string][]string, m *plugin.Manifest) (problems []string) {
	for _, capability := range unasked(imports, m) {
		problems = append(problems, fmt.Sprintf("imports prober_v1_%s, and the manifest does not ask for %q", capability, capability))
	}
	for _, r := range m.Requests {
		if imports[capabilityPrefix+r.Capability] == nil {
			problems = append(problems, fmt.Sprintf("imports nothing of prober_v1_%s, and the manifest asks for %q", r.Capability, r.Capability))
		}
	}
	return problems
}

const capabilityPrefix = "prober_v1_"

// unasked returns the capabilities that a module imports and its manifest does not ask
// for.
func unasked(imports map[string][]string, m *plugin.Manifest) (missing []string) {
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		capability, ok := strings.CutPrefix(name, capabilityPrefix)
		asks := func(r plugin.Request) bool { return r.Capability == capability }
		if ok && !slices.ContainsFunc(m.Requests, asks) {
			missing = append(missing, capability)
		}
	}
	return missing
}
