// Package attempt is what the attempts of all plugins have in common, whatever runs them.
//
// Read request.go first: what a plugin is asked. outcome.go is what its answer amounts to
// within its limits, errors.go what is not an answer. limits.go counts the limits that were
// hit, store.go holds the keys and values of a probe, and register.go loads plugins into a
// registry.
package attempt
