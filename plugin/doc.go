// Package plugin reads plugins: their manifests, files, requests, grants and limits. It runs no
// plugin; handlers/wasm and handlers/process do.
//
// Start at manifest.go, the types of plugin.yaml; decode.go parses it. find.go and read.go
// look for plugins in folders and return each as a [Found]; program.go reads programs, embed.go the
// manifest inside a module.
//
// capability.go has the table of capabilities that a manifest may request. A [Grant] is a
// pattern of permitted network addresses and functions: grant.go parses it, grantmatch.go compares it
// with a connection, effective.go compares requests with grants. limits.go has the [Limits].
package plugin
