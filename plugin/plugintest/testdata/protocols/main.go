package main

import (
	"github.com/daeace23/prober/plugin/plugintest/testdata/protocols/client"
	"github.com/daeace23/prober/sdk"
)

func init() { sdk.Register(sdk.Func(client.Probe)) }

func main() {} // of a guest it never runs
