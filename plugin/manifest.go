package plugin

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/daeace23/prober/plugin/schema"
)

// APIVersion is the version of manifests that this package reads.
const APIVersion = "prober.dev/v1"

// Mode is the kind of a guest's entry point.
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
	Process Runtime = "process" // a program, without a sandbox
	Nagios  Runtime = "nagios"  // a command for each attempt, like a plugin of Nagios
)

// ExitCodes is the meaning of the exit codes of a command.
type ExitCodes string

// The meanings of exit codes.
const (
	NagiosCodes ExitCodes = "nagios" // 0 Success, 1 Warning, 2 Failure, 3 Unknown; any other is an error
	ExecCodes   ExitCodes = "exec"   // 0 Success, any other Failure
)

// ErrorPolicy is the result of an attempt that the plugin could not make, because it trapped, was
// out of memory or could not be started.
type ErrorPolicy string

// The policies. With the default, PolicyError, a broken plugin does not restart healthy
// containers.
const (
	PolicyError   ErrorPolicy = "error"   // an error, which is retried and then ignored
	PolicyFailure ErrorPolicy = "failure" // a Failure of the target, if it is the last attempt of a tick
)

// Isolation determines which state one call of a guest leaves for the next.
type Isolation string

// The isolations.
const (
	Reset  Isolation = "reset"  // none: memory is reset to its state before the first call
	Fresh  Isolation = "fresh"  // none: each call has a new instance
	Pooled Isolation = "pooled" // all of it, for plugins that are stateful
)

// Manifest is the contents of a plugin.yaml.
type Manifest struct {
	Name        string
	Version     string
	Description string
	License     string
	Runtime     Runtime    // never empty in a [Found]
	Command     []Argument // of Nagios: the program and its arguments
	// CommandDigest is the digest that the program of Command must have; "" for any.
	CommandDigest string
	// Env and Stdin are the environment and standard input of Command, with references. Unlike its
	// arguments, only this user and root can read them.
	Env   map[string]string
	Stdin string
	// SecretsInArguments allows secrets in the arguments of Command.
	SecretsInArguments bool

	Mode        Mode      // Reactor by default
	ABI         int       // 1 by default
	SDK         string    // the SDK that it was built with, for information only
	Isolation   Isolation // Reset by default
	Stateful    bool
	ExitCodes   ExitCodes      // of Command; NagiosCodes by default
	ErrorPolicy ErrorPolicy    // PolicyError by default
	Config      *schema.Schema // of the plugin's config; never nil
	Requests    []Request
	Limits      Limits
	Budgets     Budgets // see [Manifest.EffectiveBudgets]
	Metrics     []MetricDoc
	Examples    []Example
}

// Argument is an argument of a command, with references such as {{target.host}} in it.
type Argument struct {
	Text  string
	Group []string // instead of Text: arguments that are omitted together if a reference has no value
}

// Request is a requested capability.
type Request struct {
	Capability string   // the name of a [Capability]
	Allow      []string // patterns such as "target" and "tcp://host:port"; see [Request.Patterns]
	Reason     string   // explanation for the operator
	Optional   bool     // the plugin works without it
}

// MetricDoc documents a metric that a plugin measures.
type MetricDoc struct {
	Name string
	Unit string
	Help string
}

// Example is an example of a config.
type Example struct {
	Description string
	Config      []byte // a JSON object
}

// Minimal returns a manifest with a name and the defaults, which accepts any config.
func Minimal(name string) *Manifest {
	return &Manifest{Name: name, Mode: Reactor, ABI: 1, Isolation: Reset, ExitCodes: NagiosCodes, ErrorPolicy: PolicyError, Config: &schema.Schema{}}
}

// Digest returns the digest of a module, "sha256:…".
func Digest(module []byte) string {
	sum := sha256.Sum256(module)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ValidName reports whether name can be the name of a plugin: a lower-case DNS label of at most 63
// characters.
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
