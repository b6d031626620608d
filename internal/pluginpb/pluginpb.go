// Package pluginpb has the contract between prober and plugins that are processes: prober_plugin_v1.proto,
// the generated code, and the handshake. handlers/process is the client, and sdk/process the server.
package pluginpb

//go:generate go run ./generate

// The handshake of go-plugin. If the cookie is not in the environment, a user has started the plugin by
// hand.
const (
	ProtocolVersion = 1
	CookieKey       = "PROBER_PLUGIN"
	CookieValue     = "c1a5f2f0-probe"
)

// MaxMessage is the maximum size of one message in bytes: a request or result of 64 KiB and the store of a
// probe, with room for a large config.
const MaxMessage = 1 << 20

// MaxHeaders is the maximum size of the headers of a plugin's answer, including the text of an error, in
// bytes.
const MaxHeaders = 64 << 10
