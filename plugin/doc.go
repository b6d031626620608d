// Package plugin knows what a plugin is before it runs: its manifest, its files, what it asks
// for and what it is granted. It runs no plugin; handlers/wasm and handlers/process do.
//
// Start at manifest.go, the types of plugin.yaml; decode.go reads it. find.go and read.go
// look for plugins in folders and return each as a [Found]; program.go reads those that are
// programs, embed.go the manifest inside a module.
//
// capability.go has the table of capabilities that a manifest may request. A [Grant] is a
// pattern of what may be reached: grant.go parses it, grantmatch.go compares it with a
// connection, effective.go tells an operator which requests are granted. limits.go has the
// [Limits].
package plugin
