package main

import (
	"github.com/daeace23/prober/plugin/plugintest/testdata/asker/check"
	"github.com/daeace23/prober/sdk"
)

func init() { sdk.Register(check.Plugin{}) }

func main() {} // of a guest it never runs
