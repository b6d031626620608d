//go:build race

package plugintest_test

// race says that the race detector is on, which slows the compiler of wazero down to
// a crawl.
const race = true
