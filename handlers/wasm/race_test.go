//go:build race

package wasm_test

// interpreter is true because under the race detector wazero compiles a Go guest for half a minute.
const interpreter = true
