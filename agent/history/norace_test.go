//go:build !race

package history_test

const thorough = true
