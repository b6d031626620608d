// Package pluginpb is the contract between prober and plugins that are processes:
// prober_plugin_v1.proto, the code generated from it, and the handshake before it. handlers/process
// is the host, and sdk/process the server.
package pluginpb

//go:generate go run ./generate

// The handshake of go-plugin. A plugin without the cookie in its environment was started by hand.
const (
	ProtocolVersion = 1
	CookieKey       = "PROBER_PLUGIN"
	CookieValue     = "c1a5f2f0-probe"
)

// MaxMessage is the most bytes of one message: a request or result of 64 KiB and the store of a
// probe, with room for a large config.
const MaxMessage = 1 << 20

// MaxHeaders is the most bytes of the headers, and of the text of an error, in an answer of a
// plugin.
const MaxHeaders = 64 << 10
