// Package config reads the agent's file, prober.yaml: defaults, then what the file
// says, then what does not fit together. Every error tells the file, the line and the
// path of the field.
package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

// APIVersion and Kind are the head of a file that this package reads.
const (
	APIVersion = "prober.dev/v1"
	Kind       = "AgentConfig"
)

// maxSize bounds a file: more than a person writes, and no burden to read.
const maxSize = 1 << 20

// Agent is what prober.yaml says.
type Agent struct {
	Plugins []Plugin
	Trust   Trust
	// TotalMemory is the most bytes that the instances of all plugins may have
	// together; 0 means [plugin.DefaultTotalMemory].
	TotalMemory uint64
	Nagios      Nagios
	Secrets     Secrets
}

// Nagios says which commands may run as plugins.
type Nagios struct {
	// Folders are those in which the commands lie; there is none where nothing is said, and
	// so no command runs. A relative path is beside the file.
	Folders []string
	// Env are the variables that plugins may set for their commands, such as PGPASSWORD and
	// MYSQL_*. There is none where nothing is said: variables such as LD_PRELOAD and PERL5OPT
	// have a command run another program.
	Env []string
}

// Secrets says what manifests may refer to with ${file:PATH} and ${env:NAME}.
type Secrets struct {
	// Allow are patterns such as "file:/etc/prober/secrets/*" and "env:PG_*"; there is none
	// where nothing is said, and so no reference is resolved. A relative path is beside the
	// file. * stands for what has no slash.
	Allow []string
}

// What a pattern of [Secrets] begins with.
const (
	SecretFile = "file:"
	SecretEnv  = "env:"
)

// Plugin is what the operator says of one plugin.
type Plugin struct {
	Name   string
	Source string // path of a module, or oci://…; "": found in the plugin folders
	Digest string // "sha256:…" that the module, or the program, must have; "": any
	// Manifest is the "sha256:…" that the manifest beside it must have, which Digest does not
	// cover; "": any.
	Manifest string
	// PlainHTTP talks HTTP to the registry of Source.
	PlainHTTP bool
	Grants    []plugin.Grant // beside the probe's own target
	Limits    plugin.Limits  // what holds where the manifest asks for more, or for nothing
	// ErrorPolicy says what becomes of an attempt that the plugin could not carry out;
	// "": what the manifest says.
	ErrorPolicy plugin.ErrorPolicy
	// Shadow says that all this is about another version, which runs beside the plugin of
	// that name and decides nothing. Grants, limits and policy that are not set are those
	// of the plugin.
	Shadow       bool
	PromoteAfter PromoteAfter // of a shadow

	Line int // of the file, for errors that are found later
}

// PromoteAfter says when a shadow takes the place of the plugin. The zero value means
// never.
type PromoteAfter struct {
	Ticks     int     // that were compared, at least
	Agreement float64 // the part of them in which both said the same, at least
}

// Reference returns where in a registry the plugin is; ok is false when it is in none.
func (p *Plugin) Reference() (ref plugin.Reference, ok bool) {
	if !strings.HasPrefix(p.Source, plugin.OCIScheme) {
		return ref, false
	}
	ref, err := plugin.ParseReference(p.Source)
	return ref, err == nil // which it is of what was read from a file
}

// Trust says which plugins may be loaded.
type Trust struct {
	Require bool     // a signature by one of Keys
	Keys    []string // paths of public keys, those that are relative from the file's folder

	Line int // of the file, for errors that are found later
}

// Default returns what holds without a file.
func Default() *Agent { return &Agent{} }

// Beside returns the path of a file that the file at configFile names: a relative path is
// from the folder of configFile.
func Beside(configFile, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(configFile), path)
}

// patience bounds how long the writer of a named pipe is waited for.
const patience = 5 * time.Second

// Load reads the file at path. It waits for the writer of a pipe for 5 s at most, and not at
// all for one that has not opened it: an agent reads its file again and again.
func Load(path string) (*Agent, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would block else
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(patience)) // a regular file has none, and needs none
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if info, err := f.Stat(); err == nil && len(data) == 0 && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("config: %s is not a regular file, and nothing is in it (any more)", path)
	}
	return Parse(path, data)
}

// Parse reads data, the contents of the file called file. Its errors are
// [plugin.FieldError]s, joined where there are several.
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
