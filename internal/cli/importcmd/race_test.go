//go:build race

package importcmd

// plantEvery is how many values pass before a secret is planted: the race detector makes the test ten times slower.
const plantEvery = 10
