// Package netnstest creates network namespaces for tests. They need root; without it, the test is skipped
// with a message.
package netnstest
