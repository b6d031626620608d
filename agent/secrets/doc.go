// Package secrets is what an agent does for the secrets of probes: policy.go says which
// references are allowed and resolves them, files.go follows the files that they lead to, and mask.go
// hides secrets in pods that are shown. Read policy.go first.
package secrets
