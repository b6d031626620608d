//go:build race

package history_test

// The race detector makes the tests of whole days ten times slower.
const thorough = false
