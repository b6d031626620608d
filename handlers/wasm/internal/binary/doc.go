// Package binary reads WebAssembly modules before wazero compiles them.
//
// Read inspect.go first: [Inspect] refuses what would take too much, and rewrites the module
// for the host. counts.go bounds how much of everything a module may have, scan.go reads its
// instructions, effort.go estimates what they take to compile, and rewrite.go writes the
// sections that change. fuel.go says what a metered module pays, metered.go writes one, and bulk.go
// its functions for large parts of memory.
package binary
