// Package sealed copies an executable to a place where no other user can change it. On Linux it is an
// immutable file in memory (sealed_linux.go). On other systems it is a file in a new folder, and Check
// detects changes by programs of the same user (sealed_other.go).
package sealed
