// Package pluginpb is the contract between prober and plugins that are processes:
// prober_plugin_v1.proto, what is generated from it, and the handshake that comes before it.
// handlers/process is its host, sdk/process serves it.
package pluginpb

//go:generate go run ./generate

// The handshake of go-plugin: a plugin that does not find the cookie in its environment
// was started by hand.
const (
	ProtocolVersion = 1
	CookieKey       = "PROBER_PLUGIN"
	CookieValue     = "c1a5f2f0-probe"
)

// MaxMessage is the most bytes that one message of the contract has: a request or a
// result of 64 KiB, and what a probe keeps, with room for a large config.
const MaxMessage = 1 << 20

// MaxHeaders is the most bytes of headers, and of the text of an error, that an answer of
// a plugin has.
const MaxHeaders = 64 << 10
