//go:build race

package main

// The race detector takes memory and time of its own, of which tests do not judge.
const race = true
