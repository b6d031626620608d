//go:build !unix

package wasm

import "time"

func beNice() {}

// processorTime is how long this process has been there.
func processorTime(start time.Time) time.Duration { return time.Since(start) }
