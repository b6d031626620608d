// Package secrets resolves the secrets of probes. policy.go decides which references are allowed,
// files.go detects changes of the files that they lead to, and mask.go removes secrets from pods
// that are shown. Read policy.go first.
package secrets
