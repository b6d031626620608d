// Package config reads the agent's file, prober.yaml. Every error has the file, the line and the
// path of the field. config.go has the types, decode.go reads them; targets.go does both for modules
// and targets, otlp.go for OTLP, and kubernetes.go for the node agent. notify.go has the receivers of notifications,
// notifydecode.go reads them.
//
// Package plugin/admit calls [Load] at each snapshot of the plugins, and decides with Plugins, Trust
// and Nagios. The agent gets Handlers, TotalMemory and Secrets from the snapshot. Package pods/targets
// calls [Load] too, and makes pods of Targets. `prober node` reads Kubernetes once, when it starts.
package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

// APIVersion and Kind are required at the beginning of the file.
const (
	APIVersion = "prober.dev/v1"
	Kind       = "AgentConfig"
)

// maxSize is the most bytes of the file.
const maxSize = 1 << 20

// Agent is the contents of prober.yaml.
type Agent struct {
	Handlers []Handler
	Plugins  []Plugin
	Trust    Trust
	// TotalMemory is the most bytes that the instances of all plugins may have together; 0 means
	// [plugin.DefaultTotalMemory].
	TotalMemory uint64
	Nagios      Nagios
	Secrets     Secrets
	Credentials []Credentials
	OTLP        *OTLP   // nil: nothing is sent
	Notify      *Notify // nil: nobody is told
	Modules     []Module
	Targets     []TargetGroup
	Uplink      []Witness
	Kubernetes  *Kubernetes // nil: [DefaultKubernetes]
	Blackbox    *Blackbox   // nil: nothing is restricted
}

// Credentials are what plugins may use for TLS by its name, without seeing it. A relative path is
// from the folder of the file.
type Credentials struct {
	Name       string
	CA         string // path of the authorities to trust, in PEM; "": those of the system
	Cert, Key  string // paths of a client certificate and its key, in PEM; "": none
	ServerName string // "": the host that is dialled
	Insecure   bool   // accept any certificate of a server
	Plugins    []string

	Line int // in the file, for later errors
}

// SameFiles reports whether c and other differ at most in who may use them.
func (c *Credentials) SameFiles(other *Credentials) bool {
	return c.CA == other.CA && c.Cert == other.Cert && c.Key == other.Key && c.ServerName == other.ServerName && c.Insecure == other.Insecure
}

// Nagios restricts the commands that may run as plugins.
type Nagios struct {
	// Folders are the folders of the commands; without any, no command runs. A relative path is
	// from the folder of the file.
	Folders []string
	// Env are the variables that plugins may set for their commands, such as PGPASSWORD and
	// MYSQL_*. By default there are none: with variables such as LD_PRELOAD and PERL5OPT, a
	// command runs another program.
	Env []string
}

// Secrets restricts what manifests may refer to with ${file:PATH} and ${env:NAME}.
type Secrets struct {
	// Allow are patterns such as "file:/etc/prober/secrets/*" and "env:PG_*"; without any, no
	// reference is resolved. A relative path is from the folder of the file. * matches any
	// characters but slashes.
	Allow []string
}

// The prefixes of [Secrets.Allow]: each pattern has one of them.
const (
	SecretFile = "file:"
	SecretEnv  = "env:"
)

// Handler is the entry of one built-in handler.
type Handler struct {
	Name        string
	MaxInFlight int // attempts of all its probes at the same time

	Line int // in the file, for later errors
}

// MaxInFlight returns the limit of the built-in handler called name; 0 means any number.
func (a *Agent) MaxInFlight(name string) int {
	if i := slices.IndexFunc(a.Handlers, func(h Handler) bool { return h.Name == name }); i >= 0 {
		return a.Handlers[i].MaxInFlight
	}
	return 0
}

// CheckHandlers returns an error if a has an entry for a handler that is not one of builtins. file
// is the file of a.
func (a *Agent) CheckHandlers(file string, builtins []string) error {
	var errs []error
	for i, h := range a.Handlers {
		if !slices.Contains(builtins, h.Name) {
			errs = append(errs, &plugin.FieldError{
				File: file, Line: h.Line, Field: yamlpos.Item("handlers", i) + ".name",
				Err: fmt.Errorf("unknown built-in handler %.80q%s", h.Name, yamlpos.Known(h.Name, slices.Clone(builtins))),
			})
		}
	}
	return errors.Join(errs...)
}

// Plugin is the entry of one plugin.
type Plugin struct {
	Name   string
	Source string // path of a module, or oci://…; "" if it is in the plugin folders
	Digest string // "sha256:…" that the module or program must have; "" for any
	// Manifest is the "sha256:…" that the manifest beside it must have, which Digest does not
	// cover; "" for any.
	Manifest  string
	PlainHTTP bool           // the registry of Source speaks HTTP
	Grants    []plugin.Grant // in addition to the probe's own target
	Limits    plugin.Limits  // see [plugin.Resolve]
	// ErrorPolicy replaces that of the manifest, unless it is "".
	ErrorPolicy plugin.ErrorPolicy
	// Shadow makes this the entry of another version, which runs beside the plugin of that name
	// and decides nothing. Grants, Limits and ErrorPolicy that are not set are those of the
	// plugin.
	Shadow       bool
	PromoteAfter PromoteAfter // of a shadow

	Line int // in the file, for later errors
}

// PromoteAfter is the condition for a shadow to replace the plugin. The zero value means never.
type PromoteAfter struct {
	Ticks     int     // the least number of compared ticks
	Agreement float64 // the least part of them in which both had the same result
}

// Reference returns Source as a reference, such as oci://ghcr.io/prober/redis:1; ok is false if the
// plugin is not in a registry.
func (p *Plugin) Reference() (ref plugin.Reference, ok bool) {
	if !strings.HasPrefix(p.Source, plugin.OCIScheme) {
		return ref, false
	}
	ref, err := plugin.ParseReference(p.Source)
	return ref, err == nil // Load refuses a Source that cannot be parsed
}

// Trust restricts which plugins may be loaded.
type Trust struct {
	Require bool     // each plugin must have a signature by one of Keys
	Keys    []string // paths of public keys; a relative path is from the folder of the file

	Line int // in the file, for later errors
}

// Default returns the configuration without a file.
func Default() *Agent { return &Agent{} }

// Beside returns the path of a file that prober.yaml names: a relative path is from the folder of
// configFile.
func Beside(configFile, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(configFile), path)
}

// patience bounds how long [Load] waits for the writer of a pipe.
const patience = 5 * time.Second

// Load reads the file at path. It waits at most 5 s for the writer of a pipe, and does not wait
// for a writer to open it, since an agent reads its file many times.
func Load(path string) (*Agent, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block for a pipe
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(patience)) // fails for a regular file, which needs none
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if info, err := f.Stat(); err == nil && len(data) == 0 && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("config: %s is not a regular file, and nothing is in it (any more)", path)
	}
	return Parse(path, data)
}

// Parse reads data, the contents of file. Its errors are [plugin.FieldError]s, joined if there
// are several.
func Parse(file string, data []byte) (*Agent, error) {
	d := decoder{yamlpos.Decoder{File: file}}
	a := Default()
	if root := d.Parse(data, maxSize); root != nil {
		d.agent(root, a)
		if d.Err() == nil {
			d.validate(root, a)
		}
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return a, nil
}
