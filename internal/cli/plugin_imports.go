package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/daeace23/prober/plugin"
)

// vetImports returns where the imports of a module and the requests of its manifest differ.
func vetImports(imports map[string][]string, m *plugin.Manifest) (problems []string) {
	for _, module := range slices.Sorted(maps.Keys(imports)) {
		c, ok := plugin.CapabilityOfModule(module)
		if ok && !slices.ContainsFunc(m.Requests, func(r plugin.Request) bool { return r.Capability == c.Name }) {
			problems = append(problems, fmt.Sprintf("imports %s, and the manifest does not ask for %q", module, c.Name))
		}
	}
	for _, r := range m.Requests {
		if c, ok := plugin.CapabilityNamed(r.Capability); ok && imports[c.Module] == nil {
			problems = append(problems, fmt.Sprintf("imports nothing of %s, and the manifest asks for %q", c.Module, r.Capability))
		}
	}
	return problems
}
