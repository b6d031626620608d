// Everything is a guest with the function [ways.Probe].
package main

import (
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/testdata/ways"
)

func main() {}

func init() { sdk.Register(sdk.Func(ways.Probe)) }
