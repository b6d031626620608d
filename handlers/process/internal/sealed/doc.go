// Package sealed copies an executable to where nobody can change it. On Linux that is a file in
// memory (sealed_linux.go), elsewhere a new folder (sealed_other.go).
package sealed
