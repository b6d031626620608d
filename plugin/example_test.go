package plugin_test

import (
	"fmt"

	"github.com/daeace23/prober/plugin"
)

// A manifest requests capabilities, and an operator grants them.
func ExampleEffectiveGrants() {
	manifest, err := plugin.ParseManifest("plugin.yaml", []byte(`
apiVersion: prober.dev/v1
kind: Plugin
name: redis
version: 1.2.0
requests:
- {capability: net, allow: [target], reason: to ask the server}
- {capability: kv, optional: true, reason: to see the lag grow}
`))
	if err != nil {
		panic(err)
	}
	grants, err := plugin.ParseGrants([]string{"kv"})
	if err != nil {
		panic(err)
	}
	fmt.Println(manifest.Name, manifest.Version)
	for _, e := range plugin.EffectiveGrants(manifest.Requests, grants) {
		fmt.Println(e.Capability, e.Asked, e.Granted)
	}
	// Output:
	// redis 1.2.0
	// net target [target]
	// kv kv [kv]
}
