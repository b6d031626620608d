//go:build race

package sdk_test

// With the race detector, wazero takes half a minute to compile a Go guest.
const interpreter = true
