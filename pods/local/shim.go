package local

import (
	"cmp"
	"os"
)

// shimArgument is the hidden first argument that makes a program the shim.
const shimArgument = "__prober-container-shim"

// IsShim reports whether a program that was started with args (os.Args) is to be the
// shim of a container. It must then call [ShimMain] and nothing else.
func IsShim(args []string) bool { return len(args) == 2 && args[1] == shimArgument }

// shimProgram returns the program to start as shim.
func shimProgram(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	self, err := os.Executable()
	return cmp.Or(self, os.Args[0]), err
}
