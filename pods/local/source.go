package local

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// AddressAnnotation is the pod annotation that says where the external targets of a
// pod are: an IP address or a host name.
const AddressAnnotation = "prober.dev/address"

// Source is where manifests come from. Its Load is not safe for concurrent use.
type Source struct {
	// Paths are files, folders (whose *.yaml, *.yml and *.json are read) and "-" for
	// Stdin. A file may be a pipe, such as a shell's <(…); in a folder everything but
	// regular files, and symbolic links to them, is a problem.
	Paths []string
	// Stdin is read once, at the first Load, and so are pipes; later ones see the same
	// bytes.
	Stdin io.Reader
	// Patience is how long the writer of a pipe is waited for; 0 means 30 s.
	Patience time.Duration
	// AllowUnsupported makes fields that a process can not have warnings.
	AllowUnsupported bool
	// System is the system, as runtime.GOOS names it, that is to run the pods. Other than
	// Linux they take external targets alone: see [ErrNeedsLinux]. "" means that the pods
	// are only read.
	System string
	// Check, when not nil, is asked about every pod that is otherwise right. Its errors,
	// which may be joined, become problems with file and line where they are
	// [field.Error]s or begin with the path of a field.
	Check func(pod *v1.Pod) []error

	once map[string][]byte // what can be read only once: stdin and pipes
	kept map[string]kept   // files without a problem at the last Load
}

// kept is what Load made of a file. As long as its text is the same, so is that: reading
// the one file that changed among thousands takes no longer than reading one.
type kept struct {
	hash     [sha256.Size]byte // of its text
	pods     []keptPod
	warnings Problems
}

// keptPod is a pod, which is read-only, and where it is.
type keptPod struct {
	pod   *v1.Pod
	where string
}

// ErrNeedsLinux is the problem of a container with a command where [Source.System] is not
// Linux.
var ErrNeedsLinux = errors.New("local pods need Linux")

// Problem is something wrong with a manifest, and where.
type Problem struct {
	File    string // as given, "-" for stdin
	Line    int    // from 1; 0 when none is known
	Path    string // of the field, like spec.containers[0].livenessProbe.periodSeconds; may be ""
	Message string
	Err     error // for errors.Is; may be nil
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

// Problems is all that is wrong with the manifests of a [Source].
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

// Loaded is what Load found.
type Loaded struct {
	// Pods are valid, with the API's defaults and a UID, in the order of the files. They
	// are read-only: the next Load hands out those again whose files are the same.
	Pods []*v1.Pod
	// Warnings are what AllowUnsupported let through.
	Warnings Problems
}
