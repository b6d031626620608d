package abi

// GuideEnv is the variable that tells a process under test where its guide listens, as
// HOST:PORT. The guide is the test that plays the process's world: it knows where on the
// loopback interface whatever the process dials is. Over a connection of its own each
// [GuideQuestion] gets its [GuideAnswer], both as JSON.
const GuideEnv = "PROBER_TEST_GUIDE"

// What a process asks its guide.
const (
	GuideHello     = "hello"     // once, when it starts
	GuideDial      = "dial"      // where Addr is
	GuideHandshake = "handshake" // why the handshake of the connection from Addr has failed
)

// GuideQuestion is what a process under test wants to know.
type GuideQuestion struct {
	Ask     string
	Network string `json:",omitempty"` // "tcp", "udp" or "unix"
	Addr    string `json:",omitempty"`
}

// GuideAnswer is the answer to a [GuideQuestion].
type GuideAnswer struct {
	CA         string   `json:",omitempty"` // PEM of the authority that all peers have their certificates of; of a hello
	DNSServers []string `json:",omitempty"` // whom to ask, over connections that are dialled as all are; of a hello

	// At is where the addresses of what is dialled are in reality, in the order in which
	// they are tried. "" is where nobody listens.
	At []string `json:",omitempty"`
	// Name is the host that is dialled, as the test knows it.
	Name string `json:",omitempty"`

	Error string `json:",omitempty"` // of a dial: there is no such host; of a handshake: why
}
