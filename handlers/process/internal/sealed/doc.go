// Package sealed copies an executable to where no other user can change it. On Linux that is a file
// in memory, which nobody can change (sealed_linux.go). Elsewhere it is a file in a new folder, and
// Check reports that a program of the same user has changed it (sealed_other.go).
package sealed
