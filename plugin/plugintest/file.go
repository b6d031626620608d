package plugintest

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Suffix is how the names of test files end.
const Suffix = "_test.yaml"

// maxFile bounds a test file and a session.
const maxFile = 8 << 20

// File is a *_test.yaml file.
type File struct {
	Path   string
	Plugin string // path of the module, as seen from the working folder
	Cases  []Case

	text []byte // that all this was read from
}

// Case is one test case: what the plugin is asked, what it sees of the world, and what
// it must answer.
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

	Grants []plugin.Grant // beside the target
	Peers  []Peer
	Web    []Exchange
	Zone   []Record
	KV     map[string][]byte       // what the probe has kept
	Names  map[string][]netip.Addr // of hosts; one without an address does not exist

	Want Want

	session string    // path of the file that is replayed
	all     Behaviour // of whatever the case has no peer for; of conformance checks
}

// Want is what a case demands. What is zero is not looked at.
type Want struct {
	Result      string // "success", …, or "error(reason)"
	Message     Text
	Metrics     map[string]Bounds
	Denied      []Text // the dials that are denied, in order; nil for any
	VirtualTime *Bounds
	Memory      *Bounds
	KV          map[string]string // what the probe keeps now; nil for anything

	result, message place // in the file
}

// place is where a scalar stands in a file; Line 0 is nowhere.
type place struct {
	line, column  int
	quoted, block bool
	text          string
}

// Text is an exact text, or a regular expression between slashes.
type Text struct {
	Source string
	regex  *regexp.Regexp
}

func (t Text) matches(s string) bool {
	if t.regex != nil {
		return t.regex.MatchString(s)
	}
	return t.Source == s
}

// Bounds are what a number may be: seconds, bytes or the metric's own unit.
type Bounds struct {
	Min, Max float64
	source   string
	unit     unit
}

func (b *Bounds) hold(v float64) bool { return b.Min <= v && v <= b.Max }

// unit is how a number is spelt.
type unit int

const (
	plain unit = iota
	seconds
	bytesUnit
)

func (u unit) spell(v float64) string {
	switch u {
	case seconds:
		return time.Duration(math.Round(v * float64(time.Second))).String()
	case bytesUnit:
		for _, size := range []struct {
			name string
			n    float64
		}{{"Mi", 1 << 20}, {"Ki", 1 << 10}} {
			if v >= size.n && math.Mod(v, size.n) == 0 {
				return fmt.Sprintf("%v%s", v/size.n, size.name)
			}
		}
	}
	return fmt.Sprint(v)
}

// Load reads a test file. Its errors are [plugin.FieldError]s, joined.
func Load(path string) (*File, error) {
	data, err := regular.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// Find returns the test files that paths name: files, and folders with all that is
// below them.
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
