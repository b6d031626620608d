package manifest

import (
	"errors"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
)

// AddressAnnotation is the pod annotation with the address of its external targets: an IP
// address or a host name.
const AddressAnnotation = "prober.dev/address"

// Source reads manifests. Its Load is not safe for concurrent use. AllowUnsupported and System must
// not be changed after the first Load.
type Source struct {
	// Paths are files, folders (of which *.yaml, *.yml and *.json are read) and "-" for Stdin. A
	// file may be a pipe, such as a shell's <(…). In a folder, only regular files and symbolic links to
	// them are allowed, and anything else is an error.
	Paths []string
	// Stdin is read once, at the first Load, as pipes are. A later Load uses the same text.
	Stdin io.Reader
	// AllowUnsupported turns errors about fields that a local process does not support into
	// warnings.
	AllowUnsupported bool
	// System is the operating system that runs the pods, as in runtime.GOOS. Systems
	// other than Linux run external targets only: see [ErrNeedsLinux]. "" means that the pods
	// are only read.
	System string
	// Known, if it is not nil, returns an equal pod that is already in memory, or nil. It is called for each
	// parsed pod, after the defaults were set. Its result replaces the parsed pod.
	Known func(pod *v1.Pod) *declared.Pod
	// Check, if it is not nil, is called for each pod that is otherwise valid. Its errors may be
	// joined. A [field.Error], or an error whose text begins with the path of a field, gets the line of
	// that field.
	Check func(pod *declared.Pod) []error

	once  map[string][]byte   // text of stdin and pipes, which can be read only once
	valid map[string]*content // valid files of the last Load that was not canceled
}

// ErrNeedsLinux is the error of a container with a command if [Source].System is not Linux.
var ErrNeedsLinux = errors.New("local pods need Linux")

// Loaded is the result of [Source.Load].
type Loaded struct {
	// Pods are valid, with the defaults of the API and a UID, in the order of the files.
	// The next Load may return them again.
	Pods []*declared.Pod
	// Warnings has the unsupported fields that AllowUnsupported accepted, and the results of
	// [declared.Pod.Warnings], each as a [*yamlpos.Error]. It is set even if Load returns an error.
	Warnings []error
}
