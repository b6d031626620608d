// Package descriptors keeps the file descriptors that this program was started with, beyond
// its streams, from the programs that it starts. What Go opens is never handed on.
package descriptors
