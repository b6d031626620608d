// Package testfile has the format of test files and of sessions: how they are read, written and
// updated, and how the answer of a plugin is compared with what a case wants. Read file.go
// first; host.go lists the kinds of peers.
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
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/probe"
)

// Suffix is how the names of test files end.
const Suffix = "_test.yaml"

// maxFile bounds a test file and a session.
const maxFile = 8 << 20

// File is a *_test.yaml file.
type File struct {
	Path   string
	Plugin string // path of the plugin, as seen from the working directory
	Cases  []Case
	Text   []byte // that it was read from
}

// Case is one test case: what the plugin is asked, what it sees, and what it must answer.
type Case struct {
	Name    string
	Line    int
	Timeout time.Duration

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
	KV     map[string][]byte       // what the probe has kept
	Names  map[string][]netip.Addr // of hosts; one without an address does not exist

	Want Want

	Session string // path of the file that is replayed, or ""
}

// ConfigJSON returns the config of the case as a JSON object, without the defaults of the
// manifest.
func (c *Case) ConfigJSON() []byte {
	if c.Config == nil {
		return []byte("{}")
	}
	return c.Config
}

// NeedsSandbox returns what of the case only a guest can show, or "": denials, and how the
// sandbox ends a guest.
func (c *Case) NeedsSandbox() string {
	switch c.Want.Result {
	case "error(trap)", "error(memory)", "error(instantiate)", "error(protocol)":
		return c.Want.Result
	}
	if len(c.Want.Denied) > 0 {
		return "denials"
	}
	return ""
}

// Setup returns what the network of the case is made of.
func (c *Case) Setup() peer.Setup {
	return peer.Setup{Target: c.Target, Timeout: c.Timeout, Names: c.Names, Peers: c.Peers, Session: c.Session}
}

// Request returns what the plugin is asked.
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

// Find returns the test files that paths name: files, and folders with all that is below them.
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
