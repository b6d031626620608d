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

	"github.com/daeace23/prober/internal/yamlpos"
)

// Load reads all manifests: documents of kind Pod, and of kind List with pods as items.
// Decoding is strict. Its error is [Problems], in the order of files and lines. ctx ends the
// wait for Stdin and for the writers of pipes; Load then returns its cause.
func (s *Source) Load(ctx context.Context) (Loaded, error) {
	files, problems := s.files()
	l := loader{source: s, problems: problems, checked: make(map[types.UID][]error), names: make(map[types.NamespacedName]string), uids: make(map[types.UID]string)}
	keep := make(map[string]kept, len(files))
	for _, file := range files {
		text, err := s.read(ctx, file)
		if ctx.Err() != nil {
			return Loaded{}, context.Cause(ctx)
		}
		if err != nil {
			l.problems = append(l.problems, &Problem{File: file.path, Message: reason(err)})
			continue
		}
		hash := sha256.Sum256(text)
		if k, ok := s.kept[file.path]; ok && k.hash == hash {
			keep[file.path] = k // its text is right, whatever other pods or the check make of it
			if !l.reuse(k) {
				l.file(file.path, text) // for the lines of the problems
			}
		} else if k, ok := l.read(file.path, text); ok {
			k.hash = hash
			keep[file.path] = k
		}
	}
	s.kept = keep
	if len(l.problems) > 0 {
		return Loaded{}, l.problems
	}
	loaded := Loaded{Warnings: l.warnings}
	for _, p := range l.pods {
		loaded.Pods = append(loaded.Pods, p.pod)
	}
	return loaded, nil
}

// loader collects the pods of all files.
type loader struct {
	source   *Source
	checked  map[types.UID][]error // what Source.Check has returned in this Load
	pods     []keptPod
	problems Problems
	warnings Problems
	names    map[types.NamespacedName]string // where the pod of that name is
	uids     map[types.UID]string

	d *yamlpos.Decoder // of the present file
}

// read reads a file; ok reports whether it has no problems.
func (l *loader) read(file string, text []byte) (k kept, ok bool) {
	pods, warnings, problems := len(l.pods), len(l.warnings), len(l.problems)
	l.file(file, text)
	return kept{pods: slices.Clone(l.pods[pods:]), warnings: slices.Clone(l.warnings[warnings:])}, len(l.problems) == problems
}

// reuse takes the pods of k, which were read before. It reports false, and takes none, when
// one of them conflicts with a pod of another file or the check refuses one.
func (l *loader) reuse(k kept) bool {
	for _, p := range k.pods {
		if len(l.conflicts(p.pod)) > 0 {
			return false
		}
	}
	refused := false
	for _, p := range k.pods {
		refused = errors.Join(l.check(p.pod)...) != nil || refused
	}
	if refused {
		return false
	}
	for _, p := range k.pods {
		l.take(p)
	}
	l.warnings = append(l.warnings, k.warnings...)
	return true
}

// check returns the errors of Source.Check, which is called once for a pod in a Load.
func (l *loader) check(pod *v1.Pod) []error {
	errs, ok := l.checked[pod.UID]
	if !ok && l.source.Check != nil {
		errs = l.source.Check(pod)
		l.checked[pod.UID] = errs
	}
	return errs
}

// file reads the documents of one file.
func (l *loader) file(file string, text []byte) {
	l.d = &yamlpos.Decoder{File: file}
	if len(bytes.TrimSpace(text)) == 0 {
		l.d.Errorf(nil, "", "the file is empty: must be a Pod or a List of pods")
	}
	for _, n := range l.d.ParseAll(text, maxManifest) {
		l.document(n)
	}
	var problems Problems
	for _, err := range l.d.Errors() {
		if e, ok := errors.AsType[*yamlpos.Error](err); ok {
			problems = append(problems, &Problem{File: e.File, Line: e.Line, Path: e.Field, Message: e.Err.Error(), Err: e.Err})
		}
	}
	slices.SortStableFunc(problems, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	l.problems = append(l.problems, problems...)
}

// document reads a Pod or a List.
func (l *loader) document(n *yamlpos.Node) {
	switch {
	case n.Kind != yamlpos.Mapping:
		l.d.Errorf(n, "", "must be a Pod or a List of pods, not %s", yamlpos.Kind(n))
	case scalar(n, "kind") != "List":
		l.pod(n, "", "Pod", "List")
	default:
		l.checkType(n, "", "List")
		ignore := func(*yamlpos.Node, string) {}
		l.d.Mapping(n, "", yamlpos.Fields{
			"apiVersion": ignore, "kind": ignore, "metadata": ignore,
			"items": l.d.ListOf(func(n *yamlpos.Node, path string) { l.pod(n, path, "Pod") }),
		}, "items")
	}
}

// scalar returns the text of a field of n, such as apiVersion.
func scalar(n *yamlpos.Node, name string) string {
	if v := yamlpos.Field(n, name); v != nil && v.Kind == yamlpos.Scalar {
		return v.Value
	}
	return ""
}

// checkType checks apiVersion and kind.
func (l *loader) checkType(n *yamlpos.Node, path string, kinds ...string) bool {
	ok := true
	check := func(name string, want ...string) {
		if got := scalar(n, name); !slices.Contains(want, got) {
			ok = false
			l.d.ErrorAt(yamlpos.Line(n, name), yamlpos.Join(path, name), fmt.Errorf("must be %s, not %q", strings.Join(want, " or "), got))
		}
	}
	check("kind", kinds...)
	check("apiVersion", "v1")
	return ok
}

// pod reads, completes and checks one pod.
func (l *loader) pod(n *yamlpos.Node, path string, kinds ...string) {
	pod := &v1.Pod{}
	if !l.checkType(n, path, kinds...) || !l.d.Into(n, path, pod) {
		return
	}
	setDefaults(pod)
	place := func(e *field.Error) (line int, at string) {
		if path == "" {
			return yamlpos.Line(n, e.Field), e.Field
		}
		return yamlpos.Line(n, e.Field), path + "." + e.Field
	}
	errs := validatePod(pod)
	unsupported := unsupportedFields(pod)
	if !l.source.AllowUnsupported {
		errs, unsupported = append(errs, unsupported...), nil
	}
	for _, e := range unsupported {
		line, at := place(e)
		l.warnings = append(l.warnings, &Problem{File: l.d.File, Line: line, Path: at, Message: messageOf(e)})
	}
	errs = append(errs, l.conflicts(pod)...)
	if len(errs) == 0 {
		for _, err := range l.check(pod) {
			errs = append(errs, fieldErrors(err)...)
		}
	}
	for _, e := range errs {
		line, at := place(e)
		l.d.ErrorAt(line, at, errors.New(messageOf(e)))
	}
	if l.source.System != "" && l.source.System != "linux" {
		for _, e := range linuxOnly(pod) {
			line, at := place(e)
			l.d.ErrorAt(line, at, ErrNeedsLinux)
		}
	}
	l.take(keptPod{pod, fmt.Sprintf("%s:%d", l.d.File, n.Line)})
}

// fieldErrors returns the errors that err joins, each as a [*field.Error]. One of another
// type has the path of a field at its beginning, as those of manager.Manager.AddPod do.
func fieldErrors(err error) (list field.ErrorList) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case ok:
		for _, e := range joined.Unwrap() {
			list = append(list, fieldErrors(e)...)
		}
		return list
	}
	if e, ok := errors.AsType[*field.Error](err); ok {
		return field.ErrorList{e}
	}
	path, text, ok := strings.Cut(err.Error(), ": ")
	if !ok || strings.ContainsRune(path, ' ') {
		path, text = "", err.Error()
	}
	return field.ErrorList{&field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: text}}
}

// take adds a pod.
func (l *loader) take(p keptPod) {
	l.names[types.NamespacedName{Namespace: p.pod.Namespace, Name: p.pod.Name}], l.uids[p.pod.UID] = p.where, p.where
	l.pods = append(l.pods, p)
}

// conflicts returns an error when another pod has the name or the UID of pod.
func (l *loader) conflicts(pod *v1.Pod) (errs field.ErrorList) {
	meta, name := field.NewPath("metadata"), types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if other, ok := l.names[name]; ok {
		errs = append(errs, field.Forbidden(meta.Child("name"), fmt.Sprintf("pod %s is already at %s", name, other)))
	} else if other, ok := l.uids[pod.UID]; ok {
		errs = append(errs, field.Forbidden(meta.Child("uid"), fmt.Sprintf("the pod at %s already has the UID %s", other, pod.UID)))
	}
	return errs
}

// messageOf returns the text of e without the field.
func messageOf(e *field.Error) string {
	value := fmt.Sprintf("%q", fmt.Sprint(e.BadValue))
	switch e.Type {
	case field.ErrorTypeRequired:
		return strings.TrimSuffix("is required: "+e.Detail, ": ")
	case field.ErrorTypeNotSupported:
		return value + " is not one of the " + e.Detail
	case field.ErrorTypeDuplicate:
		return value + " is set twice"
	case field.ErrorTypeNotFound:
		return strings.TrimSuffix("there is no "+value+": "+e.Detail, ": ")
	default:
		return e.Detail
	}
}
