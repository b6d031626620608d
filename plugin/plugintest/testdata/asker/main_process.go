//go:build !wasip1

package main

import (
	_ "embed"

	"github.com/daeace23/prober/sdk/process"
)

//go:embed plugin.yaml
var manifest []byte

func main() { process.Serve(check{}, manifest) }
