// Package filestamp detects changes of files without reading them. A stamp is a string that
// changes when a file may have changed; [Settling] decides when the change is complete.
// Read stamp.go first.
package filestamp
