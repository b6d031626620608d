package abi

// GuideEnv is the environment variable with the address of the guide, as HOST:PORT, for a
// plugin process under test. The guide is the test runner, which simulates the network on the
// loopback interface: it translates each address that the process dials. Each connection to
// it carries one [GuideQuestion] and one [GuideAnswer], both as JSON.
const GuideEnv = "PROBER_TEST_GUIDE"

// The questions of a process.
const (
	GuideHello     = "hello"     // once, when it starts
	GuideDial      = "dial"      // where Addr is
	GuideHandshake = "handshake" // why the handshake of the connection from Addr has failed
)

// GuideQuestion is a question of a process under test.
type GuideQuestion struct {
	Ask     string
	Network string `json:",omitempty"` // "tcp", "udp" or "unix"
	Addr    string `json:",omitempty"`
}

// GuideAnswer is the answer to a [GuideQuestion].
type GuideAnswer struct {
	CA         string   `json:",omitempty"` // PEM of the authority that signs the certificates of all peers; answers a hello
	DNSServers []string `json:",omitempty"` // for lookups, which are dialed like everything else; answers a hello

	// At has the loopback addresses to dial, in this order. "" refuses the connection.
	At []string `json:",omitempty"`
	// Name is the host of the dialed address in the test.
	Name string `json:",omitempty"`

	Error string `json:",omitempty"` // of a dial: the host does not exist; of a handshake: the reason
}
