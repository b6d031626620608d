//go:build !race

package sdk_test

const interpreter = false
