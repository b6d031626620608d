// Prober probes containers as the kubelet does, with handlers of your own.
package main

import (
	"os"

	"github.com/daeace23/prober/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.OS()))
}
