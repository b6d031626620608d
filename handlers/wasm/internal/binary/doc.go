// Package binary reads WebAssembly modules before wazero compiles them.
//
// Read inspect.go first: [Inspect] refuses modules that would take too much time or memory, and
// rewrites others for the host. counts.go limits the numbers of items in a module. scan.go reads the
// instructions, effort.go estimates the effort of compiling them, and rewrite.go writes the changed
// sections. fuel.go determines what a metered module pays, metered.go writes the module, and bulk.go
// writes its functions for memory.fill and memory.copy.
package binary
