package abi

// GuideEnv is the environment variable with the address of the guide, as HOST:PORT, for a plugin process
// under test. The guide is the test runner. It simulates the network on the loopback interface, and
// translates each address that the process dials. Each connection to the guide carries one [GuideQuestion]
// and one [GuideAnswer], both as JSON.
const GuideEnv = "PROBER_TEST_GUIDE"

// The values of [GuideQuestion].Ask.
const (
	GuideHello     = "hello"     // sent once, when the process starts
	GuideDial      = "dial"      // asks for the loopback addresses of Addr
	GuideHandshake = "handshake" // asks why the handshake of the connection from Addr has failed
)

// GuideQuestion is a question of a process under test.
type GuideQuestion struct {
	Ask     string
	Network string `json:",omitempty"` // "tcp", "udp" or "unix"
	Addr    string `json:",omitempty"`
}

// GuideAnswer is the answer to a [GuideQuestion].
type GuideAnswer struct {
	CA         string   `json:",omitempty"` // PEM of the certificate authority of all peers; in the answer to a hello
	DNSServers []string `json:",omitempty"` // nameservers, which are dialed like all addresses; in the answer to a hello

	// At has the loopback addresses to dial, in order. "" means that the connection is refused.
	At []string `json:",omitempty"`
	// Name is the host of the dialed address in the test.
	Name string `json:",omitempty"`

	Error string `json:",omitempty"` // for a dial, that the host does not exist; for a handshake, why it failed
}
