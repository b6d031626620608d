// Parting is a plugin process that does not end before the other process is asked to end as well.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/process"
)

func main() {
	name := strings.TrimPrefix(os.Args[0], "prober-plugin-")
	c := new(check)
	process.Serve(c, []byte("apiVersion: prober.dev/v1\nname: "+name+"\nversion: 1.0.0\n"))
	dir, _ := c.dir.Load().(string)
	if os.WriteFile(filepath.Join(dir, name+".asked"), nil, 0o600) != nil {
		return
	}
	for {
		if all, _ := filepath.Glob(filepath.Join(dir, "*.asked")); len(all) == 2 {
			_ = os.WriteFile(filepath.Join(dir, name+".parted"), nil, 0o600)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// check keeps the folder of its config.
type check struct{ dir atomic.Value }

// ValidateConfig implements [sdk.ConfigValidator].
func (c *check) ValidateConfig(config *sdk.Config) error {
	c.dir.Store(config.String("dir", ""))
	return nil
}

// Probe implements [sdk.Plugin].
func (*check) Probe(context.Context, *sdk.Request) (probe.Outcome, error) {
	return sdk.Successf("here"), nil
}
