// Package attempt is what the attempts of all plugins have in common, for every runtime.
//
// Read request.go first: the request that a plugin gets. outcome.go makes an outcome of its answer
// within its limits, and errors.go has the errors of attempts without an answer. limits.go counts
// the limits that were hit, store.go holds the keys and values of a probe, and register.go loads
// plugins into a registry.
package attempt
