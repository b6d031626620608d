//go:build race

package handlers_test

// interpreter reports whether guests are interpreted, so that they load fast under the race detector.
const interpreter = true
