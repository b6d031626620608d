// Package process runs a container as a group of local processes under a shim; see package shim.
//
// Read launch.go first, and then process_linux.go. Other systems have no shims: see process_other.go.
package process
