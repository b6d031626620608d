//go:build !race

package handlers_test

// interpreter is whether guests are interpreted, since they load fast under the race detector then.
const interpreter = false
