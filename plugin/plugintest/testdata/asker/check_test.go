package main

import (
	"testing"

	"github.com/daeace23/prober/sdk/sdktest"
)

func TestCases(t *testing.T) { sdktest.Run(t, check{}, "asker_test.yaml") }
