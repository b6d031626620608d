//go:build !race

package importcmd

// plantEvery is how many values pass before a secret is planted.
const plantEvery = 1
