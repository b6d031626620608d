//go:build race

package history_test

// The race detector slows tests that simulate days down by a factor of ten.
const thorough = false
