package plugin

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/daeace23/prober/plugin/schema"
)

// APIVersion is the version of manifests that this package reads.
const APIVersion = "prober.dev/v1"

// Mode is how a guest is called.
type Mode string

// The modes. A reactor exports probe, a command is run as a program.
const (
	Reactor Mode = "reactor"
	Command Mode = "command"
)

// Runtime is how a plugin runs.
type Runtime string

// The runtimes.
const (
	Wasm    Runtime = "wasm"    // a module in a sandbox
	Process Runtime = "process" // a program of its own, in none
	Nagios  Runtime = "nagios"  // a command for each attempt, as Nagios has its plugins
)

// ExitCodes is how the exit code of a command is read.
type ExitCodes string

// The readings of exit codes.
const (
	NagiosCodes ExitCodes = "nagios" // 0 Success, 1 Warning, 2 Failure, 3 Unknown; any other is an error
	ExecCodes   ExitCodes = "exec"   // 0 Success, any other Failure
)

// ErrorPolicy is what becomes of an attempt that the plugin could not carry out: it
// trapped, was out of memory or could not be started.
type ErrorPolicy string

// The policies. A broken plugin does not restart healthy containers unless it is asked
// to.
const (
	PolicyError   ErrorPolicy = "error"   // it is an error: tried again, then thrown away
	PolicyFailure ErrorPolicy = "failure" // the last attempt of a tick is a Failure of the target
)

// Isolation is what one call of a guest leaves behind for the next.
type Isolation string

// The isolations.
const (
	Reset  Isolation = "reset"  // nothing: memory is put back to what it was before the first call
	Fresh  Isolation = "fresh"  // nothing: each call has an instance of its own
	Pooled Isolation = "pooled" // everything, for plugins that say that they are stateful
)

// Manifest is what plugin.yaml says.
type Manifest struct {
	Name        string
	Version     string
	Description string
	License     string
	Runtime     Runtime    // Wasm when empty; found plugins have it set
	Command     []Argument // of Nagios: the program, and its arguments
	// CommandDigest is the digest that the program of Command must have; "": any.
	CommandDigest string
	// Env and Stdin are what Command is given in its environment and on standard input, with
	// references in them: unlike its arguments, only this user and root can read them.
	Env   map[string]string
	Stdin string
	// SecretsInArguments says that secrets may be in the arguments of Command.
	SecretsInArguments bool

	Mode        Mode      // Reactor when empty in the file
	ABI         int       // 1 when absent
	SDK         string    // what it was built with; for people
	Isolation   Isolation // Reset when empty in the file
	Stateful    bool
	ExitCodes   ExitCodes      // of Command; NagiosCodes when empty in the file
	ErrorPolicy ErrorPolicy    // PolicyError when empty in the file
	Config      *schema.Schema // of the plugin's config; never nil
	Requests    []Request
	Limits      Limits
	Metrics     []MetricDoc
	Examples    []Example
}

// Argument is an argument of a command, with references such as {{target.host}} in it.
type Argument struct {
	Text  string
	Group []string // in place of Text: arguments that are left out where a reference leads nowhere
}

// Request is a capability that a plugin asks for.
type Request struct {
	Capability string   // the name of a [Capability]
	Allow      []string // where to: "target", "tcp://host:port", …; see [Request.Patterns]
	Reason     string   // for the operator who decides
	Optional   bool     // the plugin does something useful without it
}

// MetricDoc documents a metric that a plugin measures.
type MetricDoc struct {
	Name string
	Unit string
	Help string
}

// Example is a config to learn from.
type Example struct {
	Description string
	Config      []byte // a JSON object
}

// Minimal returns the manifest of a plugin that came without one: nothing but its
// name, and any config.
func Minimal(name string) *Manifest {
	return &Manifest{Name: name, Mode: Reactor, ABI: 1, Isolation: Reset, ExitCodes: NagiosCodes, ErrorPolicy: PolicyError, Config: &schema.Schema{}}
}

// Digest returns the digest of a module's bytes as pins spell it: "sha256:…".
func Digest(module []byte) string {
	sum := sha256.Sum256(module)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ValidName reports whether name is one that a plugin may have: a lower-case DNS
// label of at most 63 characters.
func ValidName(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
