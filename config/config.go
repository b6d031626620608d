// Package config reads the agent's file, prober.yaml. Every error has the file, the line and the path of
// the field.
//
// config.go has the types, and decode.go reads them. targets.go has types and decoders for modules and
// targets, checks.go for pushes and endpoints, otlp.go for OTLP, and kubernetes.go for the node agent.
// notify.go has the types of notification receivers, and notifydecode.go reads them. dependencies.go reads
// dependencies, and finds cycles. maintenance.go has maintenance windows, window.go their times and probematch.go
// the probes that they select. slo.go has objectives.
//
// Package plugin/admit calls [Load] at each snapshot of the plugins, and decides with Plugins, Trust and
// Nagios. The agent gets Handlers, TotalMemory and Secrets from the snapshot. Package pods/targets calls
// [Load] too, and makes pods of Targets, Push and Endpoints. `prober node` reads Kubernetes once, when it
// starts.
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

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

// APIVersion and Kind are required at the beginning of the file.
const (
	APIVersion = "prober.dev/v1"
	Kind       = "AgentConfig"
)

// maxSize is the largest size of the file in bytes.
const maxSize = 1 << 20

// Agent is the contents of prober.yaml.
type Agent struct {
	Handlers []Handler
	Plugins  []Plugin
	Trust    Trust
	// TotalMemory limits the total memory of all plugin instances, in bytes; 0 means
	// [plugin.DefaultTotalMemory].
	TotalMemory uint64
	Nagios      Nagios
	Secrets     Secrets
	Credentials []Credentials
	OTLP        *OTLP   // nil: nothing is sent
	Notify      *Notify // nil: no notifications
	Modules     []Module
	Targets     []TargetGroup
	Push        []Push
	Endpoints   []Endpoint
	Uplink      []Witness
	Maintenance []Maintenance

	SLO          []SLO
	TargetLabels []TargetLabel // of metrics
	Kubernetes   *Kubernetes   // nil: [DefaultKubernetes]
	Blackbox     *Blackbox     // nil: nothing is restricted

	Selectors []Selector // all entries of fields match, and dependencies
}

// Credentials are TLS credentials that plugins may use by name, without reading them. A relative path is
// relative to the folder of the file.
type Credentials struct {
	Name       string
	CA         string // path of the trusted CAs, in PEM; "": the system's
	Cert, Key  string // paths of a client certificate and its key, in PEM; "": none
	ServerName string // "": the dialled host
	Insecure   bool   // accept any server certificate
	Plugins    []string

	Line int // in the file, for later errors
}

// SameFiles reports whether c and other are equal except for Name, Plugins and Line.
func (c *Credentials) SameFiles(other *Credentials) bool {
	return c.CA == other.CA && c.Cert == other.Cert && c.Key == other.Key && c.ServerName == other.ServerName && c.Insecure == other.Insecure
}

// Nagios restricts the commands that may run as Nagios plugins.
type Nagios struct {
	// Folders lists the folders of allowed commands; without any, no command runs. A relative path is
	// relative to the folder of the file.
	Folders []string
	// Env lists the variables that plugins may set for their commands, such as PGPASSWORD and MYSQL_*. The
	// default is none, because variables such as LD_PRELOAD and PERL5OPT make a command run another
	// program.
	Env []string
}

// Secrets restricts what manifests may refer to with ${file:PATH} and ${env:NAME}.
type Secrets struct {
	// Allow lists patterns such as "file:/etc/prober/secrets/*" and "env:PG_*"; without any, no reference
	// is resolved. A relative path is relative to the folder of the file. * matches any characters except
	// slashes.
	Allow []string
}

// The prefixes of [Secrets.Allow]. Each pattern has one of them.
const (
	SecretFile = "file:"
	SecretEnv  = "env:"
)

// Handler is the entry of one built-in handler.
type Handler struct {
	Name        string
	MaxInFlight int // limit of concurrent attempts of all its probes

	Line int // in the file, for later errors
}

// MaxInFlight returns the limit of the built-in handler called name; 0 means no limit.
func (a *Agent) MaxInFlight(name string) int {
	if i := slices.IndexFunc(a.Handlers, func(h Handler) bool { return h.Name == name }); i >= 0 {
		return a.Handlers[i].MaxInFlight
	}
	return 0
}

// CheckHandlers returns an error for each entry of a.Handlers that is not in builtins. file is the path
// that a was read from.
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
	Source string // path of a module, or oci://…; "" means a plugin in the plugin folders
	Digest string // required digest "sha256:…" of the module or program; "" for any
	// Manifest is the required digest "sha256:…" of the manifest beside the module or program, which Digest
	// does not cover; "" for any.
	Manifest  string
	PlainHTTP bool           // the registry of Source uses plain HTTP
	Grants    []plugin.Grant // in addition to access to the probe's own target
	Limits    plugin.Limits  // see [plugin.Resolve]
	// ErrorPolicy replaces the manifest's policy, unless it is "".
	ErrorPolicy plugin.ErrorPolicy
	// Shadow makes this the entry of another version of the plugin called Name. That version runs beside
	// the plugin and decides nothing. Grants, Limits and ErrorPolicy that are not set are inherited from
	// the plugin.
	Shadow       bool
	PromoteAfter PromoteAfter // of a shadow

	Line int // in the file, for later errors
}

// PromoteAfter is the condition for a shadow to replace the plugin. The zero value means never.
type PromoteAfter struct {
	Ticks     int     // minimum number of compared ticks
	Agreement float64 // minimum fraction of these ticks with the same result
}

// Reference parses Source as a registry reference, such as oci://ghcr.io/prober/redis:1. ok is false if the
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
	Require bool     // each plugin needs a signature by one of Keys
	Keys    []string // paths of public keys; a relative path is relative to the folder of the file

	Line int // in the file, for later errors
}

// Default returns the configuration without a file.
func Default() *Agent { return &Agent{} }

// Beside resolves a path from prober.yaml. A relative path is relative to the folder of configFile.
func Beside(configFile, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(configFile), path)
}

// pipeTimeout limits how long [Load] waits for the writer of a pipe.
const pipeTimeout = 5 * time.Second

// Load reads the file at path. If path is a pipe, Load waits at most 5 s for data. It does not wait for a
// writer to open the pipe, because an agent reads its file many times.
func Load(path string) (*Agent, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block for a pipe
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(pipeTimeout)) // a regular file needs no deadline and returns an error
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if info, err := f.Stat(); err == nil && len(data) == 0 && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("config: %s is not a regular file, and is empty or was already read", path)
	}
	return Parse(path, data)
}

// Shape returns what [Parse] accepts, for schemas. Probes of targets, which Parse does not read, refer to the definition
// [ProbeDefinition].
func Shape() *shape.Shape {
	d := new(decoder)
	return d.Describe(func(n *yamlpos.Node, _ string) { d.agent(n, Default()) })
}

// ProbeDefinition names the shape of the probes of targets in [Shape].
const ProbeDefinition = "targetProbe"

// Parse parses data, the contents of file. Its errors are [plugin.FieldError]s, joined if there are
// several.
func Parse(file string, data []byte) (*Agent, error) {
	d := decoder{Decoder: yamlpos.Decoder{File: file}}
	a := Default()
	if root := d.Parse(data, maxSize); root != nil {
		d.agent(root, a)
		if d.Err() == nil {
			d.validate(root, a)
		}
		a.Selectors = d.selectors
		a.addDependencies()
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return a, nil
}
