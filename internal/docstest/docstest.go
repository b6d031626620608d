// Package docstest compares the documents of the repository with the code: its tests run from the root of the
// module, where the paths that documents name begin.
package docstest
