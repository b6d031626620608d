//go:build race

package plugintest_test

// race reports whether the race detector is on. It makes wazero's compiler very slow.
const race = true
