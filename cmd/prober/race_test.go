//go:build race

package main

// The race detector needs additional memory and time. Tests do not check limits of either with it.
const race = true
