// Package handshake defines which observer of a probe gets the TLS handshakes of its attempts. It does not import
// crypto/tls, which programs with package core/group would link. Package certificates has the reports.
package handshake

// Watcher is implemented by observers of probes that watch TLS handshakes.
type Watcher interface {
	// WatchHandshakes marks the observer. It is not called.
	WatchHandshakes()
}

// Key is the key under which the context of an attempt has the first observer of its probe that is a [Watcher].
type Key struct{}
