//go:build !unix

package wasm

import "time"

func beNice() {}

// processorTime returns the time since start, an upper bound for a process with one busy thread.
func processorTime(start time.Time) time.Duration { return time.Since(start) }
