//go:build race

package sdk_test

// The race detector makes wazero compile a guest of Go for half a minute.
const interpreter = true
