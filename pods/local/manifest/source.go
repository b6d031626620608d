package manifest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// AddressAnnotation is the pod annotation with the address of its external targets: an IP
// address or a host name.
const AddressAnnotation = "prober.dev/address"

// Source is where manifests come from. Its Load is not safe for concurrent use.
type Source struct {
	// Paths are files, folders (whose *.yaml, *.yml and *.json are read) and "-" for
	// Stdin. A file may be a pipe, such as a shell's <(…). In a folder only regular files and
	// symbolic links to them are read, anything else is a problem.
	Paths []string
	// Stdin is read once, at the first Load, as pipes are; a later Load uses the same bytes.
	Stdin io.Reader
	// Patience is how long Load waits for the writer of a pipe; 0 means 30 s.
	Patience time.Duration
	// AllowUnsupported turns errors about fields that a local process does not support into
	// warnings.
	AllowUnsupported bool
	// System is the operating system that runs the pods, as runtime.GOOS names it. Systems
	// other than Linux run external targets only: see [ErrNeedsLinux]. "" means that the pods
	// are only read.
	System string
	// Check, when not nil, is called for each pod that is otherwise valid. Its errors, which
	// may be joined, become problems. Those that are [field.Error]s, or begin with the path of
	// a field, get the line of that field.
	Check func(pod *v1.Pod) []error

	once map[string][]byte // the text of stdin and pipes, which can be read only once
	kept map[string]kept   // the files without problems at the last Load
}

// kept is the result of Load for a file. It is used again while the text is the same: to
// load one changed file among thousands takes as long as to load one.
type kept struct {
	hash     [sha256.Size]byte // of its text
	pods     []keptPod
	warnings Problems
}

// keptPod is a pod, which is read-only, and its place.
type keptPod struct {
	pod   *v1.Pod
	where string // "FILE:LINE"
}

// ErrNeedsLinux is the error of a container with a command when [Source.System] is not Linux.
var ErrNeedsLinux = errors.New("local pods need Linux")

// Problem is an error in a manifest, with its place.
type Problem struct {
	File    string // as given, "-" for stdin
	Line    int    // from 1; 0 when none is known
	Path    string // of the field, like spec.containers[0].livenessProbe.periodSeconds; may be ""
	Message string
	Err     error // for errors.Is; nil for a warning
}

// Unwrap returns p.Err.
func (p *Problem) Unwrap() error { return p.Err }

// Error returns "FILE:LINE: PATH: message".
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are all problems of the manifests of a [Source].
type Problems []*Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems.
func (p Problems) Unwrap() []error {
	errs := make([]error, len(p))
	for i := range p {
		errs[i] = p[i]
	}
	return errs
}

// Loaded is the result of a Load.
type Loaded struct {
	// Pods are valid, with the defaults of the API and a UID, in the order of the files. They
	// are read-only: the next Load returns the same pods for files that have not changed.
	Pods []*v1.Pod
	// Warnings are the unsupported fields that AllowUnsupported accepted.
	Warnings Problems
}
