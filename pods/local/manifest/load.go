package manifest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/yamlpos"
)

// Load reads all manifests: documents of kind Pod, and of kind List with pods as items.
// Decoding is strict. The error joins a [*yamlpos.Error] for each problem, in the order of files
// and lines. ctx ends the wait for Stdin and for the writers of pipes; Load then returns its cause.
//
// If a valid file has not changed since the last Load, it is not parsed again, and Load returns the
// same pods. They are passed to Check again, and checked for conflicts with pods of other files.
func (s *Source) Load(ctx context.Context) (Loaded, error) {
	files, errs := s.files()
	l := loader{source: s, errs: errs, valid: make(map[string]*content), names: make(map[types.NamespacedName]place), uids: make(map[types.UID]place)}
	for _, file := range files {
		text, err := s.read(ctx, file)
		switch {
		case ctx.Err() != nil:
			return Loaded{}, context.Cause(ctx)
		case err != nil:
			l.errs = append(l.errs, fileError(file.path, err))
		default:
			l.file(file.path, text)
		}
	}
	s.valid = l.valid
	if len(l.errs) > 0 {
		return Loaded{Warnings: l.loaded.Warnings}, errors.Join(l.errs...)
	}
	return l.loaded, nil
}

// content is a parsed file.
type content struct {
	digest   [sha256.Size]byte // digest of its text
	pods     []parsedPod
	warnings []error
}

type parsedPod struct {
	pod  *declared.Pod
	line int
}

// place is the position at which a pod begins.
type place struct {
	file string
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// loader collects the pods of all files.
type loader struct {
	source *Source
	loaded Loaded
	errs   []error
	valid  map[string]*content // files without errors, except for errors counted by shared, by path
	names  map[types.NamespacedName]place
	uids   map[types.UID]place

	d      *yamlpos.Decoder // decoder of the present file
	shared int              // number of its errors that do not depend on its text alone
}

// file reads the pods of one file.
func (l *loader) file(file string, text []byte) {
	l.d, l.shared = &yamlpos.Decoder{File: file}, 0
	digest := sha256.Sum256(text)
	c := l.source.valid[file]
	if c != nil && c.digest == digest {
		l.reuse(c, text)
	} else {
		c = &content{digest: digest}
		documents(l.d, text, func(n *yamlpos.Node, path string, kinds ...string) { l.pod(c, n, path, kinds...) })
	}
	errs := l.d.Errors()
	if len(errs) == l.shared {
		l.valid[file] = c
	}
	l.loaded.Warnings = append(l.loaded.Warnings, c.warnings...)
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	l.errs = append(l.errs, errs...)
}

// reuse adds the pods of a file that has not changed. It parses the file only to find the lines of
// errors.
func (l *loader) reuse(c *content, text []byte) {
	found := make(map[int]field.ErrorList)
	for i, p := range c.pods {
		if errs := l.sharedErrors(p.pod, true); len(errs) > 0 {
			found[i] = errs
		}
		l.add(p)
	}
	if len(found) == 0 {
		return
	}
	i := 0
	documents(l.d, text, func(n *yamlpos.Node, path string, _ ...string) {
		l.report(n, path, found[i])
		i++
	})
}

func lineOf(err error) int {
	if e, ok := errors.AsType[*yamlpos.Error](err); ok {
		return e.Line
	}
	return 0
}

// documents calls pod with each node of a text that must be a pod. kinds are the allowed kinds of the node.
func documents(d *yamlpos.Decoder, text []byte, pod func(n *yamlpos.Node, path string, kinds ...string)) {
	if len(bytes.TrimSpace(text)) == 0 {
		d.Errorf(nil, "", "the file is empty: must be a Pod or a List of pods")
	}
	ignore := func(*yamlpos.Node, string) {}
	for n := range d.All(text, maxManifest) {
		switch {
		case n.Kind != yamlpos.Mapping:
			d.Errorf(n, "", "must be a Pod or a List of pods, not %s", yamlpos.Kind(n))
		case scalar(n, "kind") != "List":
			pod(n, "", "Pod", "List")
		default:
			checkType(d, n, "", "List")
			d.Mapping(n, "", yamlpos.Fields{
				"apiVersion": ignore, "kind": ignore, "metadata": ignore,
				"items": d.ListOf(func(n *yamlpos.Node, path string) { pod(n, path, "Pod") }),
			}, "items")
		}
	}
}

// scalar returns the text of a field of n, such as apiVersion, or "".
func scalar(n *yamlpos.Node, name string) string {
	if v := yamlpos.Field(n, name); v != nil && v.Kind == yamlpos.Scalar {
		return v.Value
	}
	return ""
}

// checkType reports whether apiVersion and kind are valid, and adds the errors.
func checkType(d *yamlpos.Decoder, n *yamlpos.Node, path string, kinds ...string) bool {
	ok := true
	check := func(name string, want ...string) {
		if got := scalar(n, name); !slices.Contains(want, got) {
			ok = false
			d.ErrorAt(yamlpos.Line(n, name), yamlpos.Join(path, name), fmt.Errorf("must be %s, not %q", strings.Join(want, " or "), got))
		}
	}
	check("kind", kinds...)
	check("apiVersion", "v1")
	return ok
}

// pod adds one pod, with its defaults, and its errors to c and to the loader.
func (l *loader) pod(c *content, n *yamlpos.Node, path string, kinds ...string) {
	pod := &v1.Pod{}
	if !checkType(l.d, n, path, kinds...) || !l.d.Into(n, path, pod) {
		return
	}
	setDefaults(pod)
	var d *declared.Pod
	if l.source.Known != nil {
		d = l.source.Known(pod)
	}
	if d == nil {
		d = declared.Parse(pod)
	}
	errs := validatePod(d)
	unsupported := unsupportedFields(pod)
	if !l.source.AllowUnsupported {
		errs, unsupported = append(errs, unsupported...), nil
	}
	for _, e := range append(unsupported, d.Warnings()...) {
		c.warnings = append(c.warnings, located(l.d.File, n, path, e, messageOf(e)))
	}
	l.report(n, path, append(errs, l.sharedErrors(d, len(errs) == 0)...))
	if l.source.System != "" && l.source.System != "linux" {
		for _, e := range linuxOnly(pod) {
			at := located(l.d.File, n, path, e, ErrNeedsLinux)
			l.d.ErrorAt(at.Line, at.Field, at.Err)
		}
	}
	if l.source.System == "linux" && len(errs) == 0 {
		l.report(n, path, unprivileged(pod))
	}
	p := parsedPod{d, n.Line}
	c.pods = append(c.pods, p)
	l.add(p)
}

// add adds a pod of the present file.
func (l *loader) add(p parsedPod) {
	at := place{l.d.File, p.line}
	pod := p.pod.Pod()
	l.names[nameOf(pod)], l.uids[pod.UID] = at, at
	l.loaded.Pods = append(l.loaded.Pods, p.pod)
}

// sharedErrors returns the errors of a pod that do not depend on its file alone: conflicts with other
// pods, and errors of Check if the pod is otherwise valid.
func (l *loader) sharedErrors(pod *declared.Pod, valid bool) field.ErrorList {
	errs := l.conflicts(pod.Pod())
	if valid && len(errs) == 0 && l.source.Check != nil {
		for _, err := range l.source.Check(pod) {
			errs = append(errs, fieldErrors(err)...)
		}
	}
	l.shared += len(errs)
	return errs
}

// report adds errors of the pod at n.
func (l *loader) report(n *yamlpos.Node, path string, errs field.ErrorList) {
	for _, e := range errs {
		at := located(l.d.File, n, path, e, messageOf(e))
		l.d.ErrorAt(at.Line, at.Field, at.Err)
	}
}

// located returns err with the position of e, an error of the pod at n.
func located(file string, n *yamlpos.Node, path string, e *field.Error, err error) *yamlpos.Error {
	name := e.Field
	if path != "" {
		name = path + "." + name
	}
	return &yamlpos.Error{File: file, Line: yamlpos.Line(n, e.Field), Field: name, Err: err}
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// fieldErrors returns the errors that err joins, each as a [*field.Error]. If the text of another type of error
// begins with the path of a field, as in errors of manager.Manager.AddPod, it becomes the Field.
func fieldErrors(err error) (list field.ErrorList) {
	for _, err := range joined.Errors(err) {
		if e, ok := errors.AsType[*field.Error](err); ok {
			list = append(list, e)
			continue
		}
		path, text, ok := strings.Cut(err.Error(), ": ")
		if !ok || strings.ContainsRune(path, ' ') {
			path, text = "", err.Error()
		}
		list = append(list, &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: text})
	}
	return list
}

// conflicts returns an error if another pod has the name or the UID of pod.
func (l *loader) conflicts(pod *v1.Pod) (errs field.ErrorList) {
	meta, name := field.NewPath("metadata"), nameOf(pod)
	if other, ok := l.names[name]; ok {
		errs = append(errs, field.Forbidden(meta.Child("name"), fmt.Sprintf("pod %s is already at %s", name, other)))
	} else if other, ok := l.uids[pod.UID]; ok {
		errs = append(errs, field.Forbidden(meta.Child("uid"), fmt.Sprintf("the pod at %s already has the UID %s", other, pod.UID)))
	}
	return errs
}

// messageOf returns e without the field.
func messageOf(e *field.Error) error {
	value := fmt.Sprintf("%q", fmt.Sprint(e.BadValue))
	switch e.Type {
	case field.ErrorTypeRequired:
		return errors.New(strings.TrimSuffix("is required: "+e.Detail, ": "))
	case field.ErrorTypeNotSupported:
		return errors.New(value + " is not one of the " + e.Detail)
	case field.ErrorTypeDuplicate:
		return errors.New(value + " is set twice")
	case field.ErrorTypeNotFound:
		return errors.New(strings.TrimSuffix("there is no "+value+": "+e.Detail, ": "))
	default:
		return errors.New(e.Detail)
	}
}
