//go:build !race

package plugintest_test

const race = false
