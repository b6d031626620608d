// Package client speaks to a running agent, over its socket, or over TCP with its token. Read
// client.go first.
package client
