// Package testfile reads, writes and updates test files and sessions, and compares a plugin's answer
// with the wanted one. Read file.go first; host.go lists the kinds of peers.
package testfile

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/hostfile"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/probe"
)

// Suffix is the suffix of the names of test files.
const Suffix = "_test.yaml"

// maxFile is the maximum size of a test file or a session, in bytes.
const maxFile = 8 << 20

// File is a *_test.yaml file.
type File struct {
	Path   string
	Plugin string // path of the plugin, as seen from the working directory
	Cases  []Case
	Text   []byte // contents of the file
}

// Case is one test case: the request, the simulated network, and the wanted answer.
type Case struct {
	Name    string
	Line    int
	Timeout time.Duration

	Seed *uint64   // of the random bytes of a guest; nil: the position of the case
	Time time.Time // of a guest's clock at the start; zero: a day for each position

	Kind       probe.Kind
	Attempt    int
	LastResult probe.Result
	Target     probe.Target
	PodIP      string
	Pod        probe.Pod
	Container  probe.Container
	Config     []byte // a JSON object; nil for none

	Grants []plugin.Grant
	Peers  []peer.Peers            // of each protocol
	KV     map[string][]byte       // the probe's key-value store before the attempt
	Files  hostfile.Files          // files of the host
	Names  map[string][]netip.Addr // addresses of hosts; a host without one does not exist

	Want Want

	// Accepts has the [Faults] of peers after which the result of the case is right.
	Accepts []Fault

	Session string // path of the replayed session, or ""
}

// ConfigJSON returns the config of the case as a JSON object, without the defaults of the
// manifest.
func (c *Case) ConfigJSON() []byte {
	if c.Config == nil {
		return []byte("{}")
	}
	return c.Config
}

// NeedsSandbox returns the part of the wanted answer that only a guest in a sandbox can give, such
// as a denial or a trap. It returns "" if there is none.
func (c *Case) NeedsSandbox() string {
	switch c.Want.Result {
	case "error(trap)", "error(memory)", "error(instantiate)", "error(protocol)":
		return c.Want.Result
	}
	if len(c.Want.Denied) > 0 {
		return "denials"
	}
	if len(c.Files) > 0 {
		return "files of the host"
	}
	return ""
}

// HasCommands reports whether a peer of the case is a process.
func (c *Case) HasCommands() bool {
	return slices.ContainsFunc(c.Peers, func(p peer.Peers) bool {
		commander, ok := p.(peer.Commander)
		return ok && commander.Commands()
	})
}

// Setup returns the configuration of the case's network.
func (c *Case) Setup() peer.Setup {
	return peer.Setup{Target: c.Target, Timeout: c.Timeout, Names: c.Names, Peers: c.Peers, Session: c.Session}
}

// Request returns the request of the case.
func (c *Case) Request() probe.Request {
	return probe.Request{
		Kind: c.Kind, Attempt: c.Attempt, LastResult: c.LastResult, Target: c.Target, PodIP: c.PodIP,
		Spec: probe.Spec{Period: 10 * time.Second, Timeout: c.Timeout, SuccessThreshold: 1, FailureThreshold: 3},
		Pod:  &c.Pod, Container: &c.Container,
	}
}

// Load reads a test file. Its errors are [plugin.FieldError]s, joined.
func Load(path string) (*File, error) {
	data, err := regular.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// Shape returns what [Load] accepts, for schemas.
func Shape() *shape.Shape {
	r := field.NewReader("")
	return r.Describe(func(n *yamlpos.Node, _ string) { decodeFile(r, n, new(File)) })
}

// Find returns the test files at paths. It searches folders recursively.
func Find(paths []string) ([]string, error) {
	var found []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			found = append(found, path)
			continue
		}
		below, err := findBelow(path)
		if err != nil {
			return nil, err
		}
		if len(below) == 0 {
			return nil, fmt.Errorf("%s: no *%s file is there", path, Suffix)
		}
		found = append(found, below...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func findBelow(dir string) (found []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(d.Name(), Suffix):
			found = append(found, path)
		}
		return nil
	})
	return found, err
}
