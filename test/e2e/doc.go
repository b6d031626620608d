// Package e2e runs the built binary and plugins against real servers. `make test-e2e`
// installs them. Read e2e_test.go first.
//
// This file has no build tag, so that the tools of Go find a package without -tags e2e.
package e2e
