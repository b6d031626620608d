//go:build !race

package wasm_test

const interpreter = false
