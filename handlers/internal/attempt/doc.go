// Package attempt has the code that attempts of plugins share, for every runtime.
//
// Read request.go first: it makes the request that a plugin gets. outcome.go makes an outcome from the
// answer, within the limits. errors.go has the errors of attempts without an answer, limits.go counts
// limits that were hit, store.go holds the keys and values of a probe, and register.go loads plugins into
// a registry.
package attempt
