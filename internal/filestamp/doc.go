// Package filestamp tells whether files have changed, without reading them. A stamp is a
// text that is another one when a file may be; [Settling] decides when a change is complete.
// Read stamp.go first.
package filestamp
