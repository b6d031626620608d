// Package client sends requests to a running agent over its unix socket, or over TCP with its token. Read
// client.go first.
package client
