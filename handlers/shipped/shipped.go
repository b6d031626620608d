// Package shipped has the plugins that are part of every prober: sources in a folder each, built by
// the script build, with the modules beside them.
//
// Begin with [Plugins], and with httpcheck/lib.rs for one of the plugins. common has what they share.
package shipped

import (
	_ "embed" // of the modules
	"fmt"

	"github.com/daeace23/prober/plugin"
)

// The modules. Nothing changes them.
var (
	//go:embed dns/dns.wasm
	dns []byte
	//go:embed expect/expect.wasm
	expect []byte
	//go:embed httpcheck/httpcheck.wasm
	httpcheck []byte
	//go:embed icmp/icmp.wasm
	icmp []byte
)

// Names returns the names of all shipped plugins.
func Names() []string { return []string{"dns", "expect", "httpcheck", "icmp"} }

// Path returns the path that a shipped plugin has in messages. There is no such file.
func Path(name string) string { return "built-in:" + name }

// Plugins returns all shipped plugins, by name. It reads their manifests, and compiles nothing. An error
// means that this binary was not built from what the tests have seen.
func Plugins() ([]plugin.Found, error) {
	var found []plugin.Found
	for _, p := range []struct {
		name   string
		module []byte
	}{
		{"dns", dns}, {"expect", expect}, {"httpcheck", httpcheck}, {"icmp", icmp},
	} {
		path := Path(p.name)
		manifest, err := plugin.ReadModule(path, p.module)
		if err != nil {
			return nil, fmt.Errorf("shipped plugins: %w", err)
		}
		f := plugin.Found{Manifest: manifest, Path: path}
		f.SetModule(p.module)
		found = append(found, f)
	}
	return found, nil
}
