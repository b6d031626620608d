// Package secrets resolves the secrets of probes. policy.go decides which references are allowed, files.go
// detects changes of the files, and mask.go removes secrets from pods before they are shown. Read policy.go
// first.
package secrets
