// Package e2e tests the built binary and plugins against real servers. `make test-e2e` installs the servers.
// Read e2e_test.go first.
//
// This file has no build tag, so that Go tools find a package without -tags e2e.
package e2e
