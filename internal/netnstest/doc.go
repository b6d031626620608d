// Package netnstest makes network namespaces for tests. They need root; without it a test is skipped,
// and says so.
package netnstest
