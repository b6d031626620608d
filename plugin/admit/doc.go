// Package admit decides which plugins may be loaded. It reads plugin folders, prober.yaml,
// the lock, public keys and registries, and runs no plugin.
//
// Read snapshot.go first: a [Scanner] takes a [Snapshot], the immutable list of all plugins
// with the decision about each. policy.go makes the decision, from pins, signatures, the
// lock and plugins under development. memory.go caches decisions about unchanged files. sources.go
// fetches and caches the plugins of registries, pull.go applies the policy to them, and refresh.go
// asks registries again. errors.go has the types of errors, which carry the plugin's name.
package admit
