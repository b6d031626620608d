//go:build !wasip1

// Asker is the plugin of package check as a guest or as a process.
package main

import (
	_ "embed"

	"github.com/daeace23/prober/plugin/plugintest/testdata/asker/check"
	"github.com/daeace23/prober/sdk/process"
)

//go:embed plugin.yaml
var manifest []byte

func main() { process.Serve(check.Plugin{}, manifest) }
