package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/yamlpos"
)

// Load reads all manifests: documents of kind Pod, and of kind List with pods as items.
// Decoding is strict. The error joins a [*yamlpos.Error] for each problem, in the order of files
// and lines. ctx ends the wait for Stdin and for the writers of pipes; Load then returns its cause.
func (s *Source) Load(ctx context.Context) (Loaded, error) {
	files, errs := s.files()
	l := loader{source: s, errs: errs, names: make(map[types.NamespacedName]string), uids: make(map[types.UID]string)}
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
	if len(l.errs) > 0 {
		return Loaded{}, errors.Join(l.errs...)
	}
	return l.loaded, nil
}

// loader collects the pods of all files.
type loader struct {
	source *Source
	loaded Loaded
	errs   []error
	names  map[types.NamespacedName]string // the places of the pods, "FILE:LINE"
	uids   map[types.UID]string

	d *yamlpos.Decoder // of the present file
}

// file reads the documents of one file.
func (l *loader) file(file string, text []byte) {
	l.d = &yamlpos.Decoder{File: file}
	if len(bytes.TrimSpace(text)) == 0 {
		l.d.Errorf(nil, "", "the file is empty: must be a Pod or a List of pods")
	}
	for n := range l.d.All(text, maxManifest) {
		l.document(n)
	}
	errs := l.d.Errors()
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	l.errs = append(l.errs, errs...)
}

func lineOf(err error) int {
	if e, ok := errors.AsType[*yamlpos.Error](err); ok {
		return e.Line
	}
	return 0
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

// scalar returns the text of a field of n, such as apiVersion, or "".
func scalar(n *yamlpos.Node, name string) string {
	if v := yamlpos.Field(n, name); v != nil && v.Kind == yamlpos.Scalar {
		return v.Value
	}
	return ""
}

// checkType reports whether apiVersion and kind are valid, and adds the errors.
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

// pod adds one pod, with its defaults, and its errors.
func (l *loader) pod(n *yamlpos.Node, path string, kinds ...string) {
	pod := &v1.Pod{}
	if !l.checkType(n, path, kinds...) || !l.d.Into(n, path, pod) {
		return
	}
	setDefaults(pod)
	if l.source.Known != nil {
		pod = l.source.Known(pod)
	}
	at := func(e *field.Error, err error) *yamlpos.Error {
		name := e.Field
		if path != "" {
			name = path + "." + name
		}
		return &yamlpos.Error{File: l.d.File, Line: yamlpos.Line(n, e.Field), Field: name, Err: err}
	}
	errs := validatePod(pod)
	unsupported := unsupportedFields(pod)
	if !l.source.AllowUnsupported {
		errs, unsupported = append(errs, unsupported...), nil
	}
	for _, e := range unsupported {
		l.loaded.Warnings = append(l.loaded.Warnings, at(e, messageOf(e)))
	}
	errs = append(errs, l.conflicts(pod)...)
	if len(errs) == 0 && l.source.Check != nil {
		for _, err := range l.source.Check(pod) {
			errs = append(errs, fieldErrors(err)...)
		}
	}
	for _, e := range errs {
		located := at(e, messageOf(e))
		l.d.ErrorAt(located.Line, located.Field, located.Err)
	}
	if l.source.System != "" && l.source.System != "linux" {
		for _, e := range linuxOnly(pod) {
			located := at(e, ErrNeedsLinux)
			l.d.ErrorAt(located.Line, located.Field, located.Err)
		}
	}
	where := fmt.Sprintf("%s:%d", l.d.File, n.Line)
	l.names[nameOf(pod)], l.uids[pod.UID] = where, where
	l.loaded.Pods = append(l.loaded.Pods, pod)
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// fieldErrors returns the errors that err joins, each as a [*field.Error]. An error of another type
// may begin with the path of a field, as those of manager.Manager.AddPod do.
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
