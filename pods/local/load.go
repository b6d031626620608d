package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/internal/regular"
)

// maxManifest is how many bytes a manifest file may have.
const maxManifest = 8 << 20

// Load reads all manifests: documents of kind Pod, and List with pods in it. Decoding
// is strict. Its error is [Problems]: all that is wrong, in the order of files and
// lines. ctx ends the wait for Stdin and for the writers of pipes: then Load returns its
// cause.
func (s *Source) Load(ctx context.Context) (Loaded, error) {
	files, problems := s.files()
	l := loader{allow: s.AllowUnsupported, system: s.System, check: s.Check, problems: problems, asked: make(map[types.UID][]error), names: make(map[types.NamespacedName]string), uids: make(map[types.UID]string)}
	keep := make(map[string]kept, len(files))
	for _, file := range files {
		text, err := s.read(ctx, file)
		if ctx.Err() != nil {
			return Loaded{}, context.Cause(ctx)
		}
		if err != nil {
			l.problem(file.path, 0, "", reason(err))
			continue
		}
		hash := sha256.Sum256(text)
		if k, ok := s.kept[file.path]; ok && k.hash == hash {
			keep[file.path] = k // whatever is wrong beside other pods, or says the check
			if !l.reuse(k) {
				l.file(file.path, text) // which says where
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

// Stamp returns a text that changes when the files that Load would read do: their
// names, sizes, times or modes. It reads none of them.
func (s *Source) Stamp() string {
	files, problems := s.files()
	var b strings.Builder
	for _, file := range files {
		info, err := os.Stat(file.path)
		if err != nil {
			fmt.Fprintf(&b, "%q %v\n", file.path, err)
			continue
		}
		fmt.Fprintf(&b, "%q %d %d %v\n", file.path, info.Size(), info.ModTime().UnixNano(), info.Mode())
	}
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// Files returns the files that Load would read, each once. Its error is [Problems].
func (s *Source) Files() (names []string, err error) {
	files, problems := s.files()
	for _, file := range files {
		names = append(names, file.path)
	}
	if len(problems) > 0 {
		return names, problems
	}
	return names, nil
}

// listed is a file to be read.
type listed struct {
	path  string
	given bool // one of [Source.Paths], which may be a pipe; not found in a folder
}

// files returns the files of all paths, each once.
func (s *Source) files() (files []listed, problems Problems) {
	add := func(file listed) {
		if !slices.ContainsFunc(files, func(f listed) bool { return f.path == file.path }) {
			files = append(files, file)
		}
	}
	for _, path := range s.Paths {
		if path == "-" {
			add(listed{path, true})
			continue
		}
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			add(listed{path, true})
			continue
		}
		var entries []os.DirEntry
		if err == nil {
			entries, err = os.ReadDir(path)
		}
		if err != nil {
			problems = append(problems, &Problem{File: path, Message: reason(err)})
			continue
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
				add(listed{filepath.Join(path, e.Name()), false})
			}
		}
	}
	return files, problems
}

// read returns the text of a file. What can be read only once is kept.
func (s *Source) read(ctx context.Context, file listed) ([]byte, error) {
	if text, ok := s.once[file.path]; ok {
		return text, nil
	}
	var text []byte
	var err error
	switch {
	case file.path == "-" && s.Stdin == nil:
		return nil, nil
	case file.path == "-":
		text, err = regular.Stream(ctx, s.Stdin, "stdin", maxManifest)
	default:
		text, err = regular.Read(file.path, maxManifest)
		if !file.given || !errors.Is(err, regular.ErrNotRegular) {
			return text, err
		}
		text, err = regular.Input(ctx, file.path, maxManifest, cmp.Or(s.Patience, regular.Patience))
	}
	if err != nil {
		return nil, err
	}
	if s.once == nil {
		s.once = make(map[string][]byte)
	}
	s.once[file.path] = text
	return text, nil
}

// reason returns err without the path, which the problem names already.
func reason(err error) string {
	if _, ok := errors.AsType[*regular.TooLargeError](err); ok {
		return fmt.Sprintf("more than %d MiB", maxManifest>>20)
	}
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err.Error()
	}
	return err.Error()
}

// loader collects the pods of all files.
type loader struct {
	allow    bool
	system   string
	check    func(*v1.Pod) []error
	asked    map[types.UID][]error // what check has said
	pods     []keptPod
	problems Problems
	warnings Problems
	names    map[types.NamespacedName]string // where each is
	uids     map[types.UID]string
}

func (l *loader) problem(file string, line int, path, message string) {
	l.problems = append(l.problems, &Problem{File: file, Line: line, Path: path, Message: message})
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n\s*)?(?:line (\d+): )?`)

// read reads a file; ok is false when there is something wrong with it.
func (l *loader) read(file string, text []byte) (k kept, ok bool) {
	pods, warnings, problems := len(l.pods), len(l.warnings), len(l.problems)
	l.file(file, text)
	return kept{pods: slices.Clone(l.pods[pods:]), warnings: slices.Clone(l.warnings[warnings:])}, len(l.problems) == problems
}

// reuse takes the pods of k, which were read before. It reports false, and takes none,
// when one of them is not right any more beside the others, or to the check.
func (l *loader) reuse(k kept) bool {
	right := true
	for _, p := range k.pods {
		right = right && len(l.conflicts(p.pod)) == 0
	}
	for _, p := range k.pods {
		right = right && errors.Join(l.ask(p.pod)...) == nil
	}
	if !right {
		return false
	}
	for _, p := range k.pods {
		l.take(p)
	}
	l.warnings = append(l.warnings, k.warnings...)
	return true
}

// ask returns what the check says of a pod, which is asked about once in a load.
func (l *loader) ask(pod *v1.Pod) []error {
	errs, ok := l.asked[pod.UID]
	if !ok && l.check != nil {
		errs = l.check(pod)
		l.asked[pod.UID] = errs
	}
	return errs
}

// file reads the documents of one file.
func (l *loader) file(file string, text []byte) {
	if len(bytes.TrimSpace(text)) == 0 {
		l.problem(file, 0, "", "the file is empty: must be a Pod or a List of pods")
		return
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		switch err := documents.Decode(&n); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			found := yamlLine.FindStringSubmatch(err.Error())
			line := 0
			if len(found) > 1 {
				line, _ = strconv.Atoi(found[1])
			}
			l.problem(file, line, "", yamlLine.ReplaceAllString(err.Error(), ""))
			return
		case len(n.Content) > 0 && n.Content[0].Tag != "!!null":
			l.document(file, n.Content[0])
		}
	}
}

// document reads a Pod or a List.
func (l *loader) document(file string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode || n.Kind != yaml.MappingNode {
		l.problem(file, n.Line, "", "must be a Pod or a List of pods, not "+kindOf(n))
		return
	}
	d := &decoder{report: func(line int, path *field.Path, message string) {
		at := ""
		if path != nil {
			at = path.String()
		}
		l.problem(file, line, at, message)
	}}
	if kind := typeOf(n, "kind"); kind != "List" {
		l.pod(file, n, d, nil)
		return
	}
	l.checkType(file, n, nil, "List")
	items, _ := child(n, "items")
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains([]string{"apiVersion", "kind", "metadata", "items"}, key.Value) {
			l.problem(file, key.Line, key.Value, "unknown field")
		}
	}
	if items == nil || items.Kind != yaml.SequenceNode {
		l.problem(file, n.Line, "items", "must be a list of pods")
		return
	}
	for i, item := range items.Content {
		l.pod(file, item, d, field.NewPath("items").Index(i))
	}
}

// typeOf returns the text of apiVersion or kind.
func typeOf(n *yaml.Node, name string) string {
	if v, _ := child(n, name); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// checkType checks apiVersion and kind.
func (l *loader) checkType(file string, n *yaml.Node, path *field.Path, kinds ...string) bool {
	ok := true
	if kind := typeOf(n, "kind"); !slices.Contains(kinds, kind) {
		ok = false
		l.problem(file, locate(n, "kind"), childPath(path, "kind").String(), fmt.Sprintf("must be %s, not %q", strings.Join(kinds, " or "), kind))
	}
	if version := typeOf(n, "apiVersion"); version != "v1" {
		ok = false
		l.problem(file, locate(n, "apiVersion"), childPath(path, "apiVersion").String(), fmt.Sprintf("must be v1, not %q", version))
	}
	return ok
}

// pod reads, completes and checks one pod.
func (l *loader) pod(file string, n *yaml.Node, d *decoder, path *field.Path) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	kinds := []string{"Pod"}
	if path == nil {
		kinds = append(kinds, "List")
	}
	if !l.checkType(file, n, path, kinds...) {
		return
	}
	pod := &v1.Pod{}
	if !d.decode(n, path, pod) {
		return
	}
	setDefaults(pod)
	where := func(e *field.Error) *Problem {
		p := &Problem{File: file, Line: locate(n, e.Field), Path: e.Field, Message: messageOf(e)}
		if path != nil {
			p.Path = path.String() + "." + e.Field
		}
		return p
	}
	errs := validatePod(pod)
	unsupported := unsupportedFields(pod)
	if !l.allow {
		errs, unsupported = append(errs, unsupported...), nil
	}
	for _, e := range unsupported {
		l.warnings = append(l.warnings, where(e))
	}
	errs = append(errs, l.conflicts(pod)...)
	if len(errs) == 0 {
		for _, err := range l.ask(pod) {
			errs = append(errs, fieldErrors(err)...)
		}
	}
	for _, e := range errs {
		l.problems = append(l.problems, where(e))
	}
	if l.system != "" && l.system != "linux" {
		for _, e := range linuxOnly(pod) {
			p := where(e)
			p.Err = ErrNeedsLinux
			l.problems = append(l.problems, p)
		}
	}
	l.take(keptPod{pod, fmt.Sprintf("%s:%d", file, n.Line)})
}

// fieldErrors returns the errors that err joins, each as a [*field.Error]: as it is, or
// read from a text that begins with the path of a field, as those of
// [manager.Manager.AddPod] do.
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

// conflicts says if another pod has the name or the UID of pod.
func (l *loader) conflicts(pod *v1.Pod) (errs field.ErrorList) {
	meta, name := field.NewPath("metadata"), types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if other, ok := l.names[name]; ok {
		errs = append(errs, field.Forbidden(meta.Child("name"), fmt.Sprintf("pod %s is at %s already", name, other)))
	} else if other, ok := l.uids[pod.UID]; ok {
		errs = append(errs, field.Forbidden(meta.Child("uid"), fmt.Sprintf("the pod at %s has UID %s already", other, pod.UID)))
	}
	return errs
}

// messageOf returns what e says beside the field.
func messageOf(e *field.Error) string {
	value := fmt.Sprintf("%q", fmt.Sprint(e.BadValue))
	switch e.Type {
	case field.ErrorTypeRequired:
		return strings.TrimSuffix("is required: "+e.Detail, ": ")
	case field.ErrorTypeNotSupported:
		return value + " is not one of the " + e.Detail
	case field.ErrorTypeDuplicate:
		return value + " is there twice"
	case field.ErrorTypeNotFound:
		return strings.TrimSuffix("there is no "+value+": "+e.Detail, ": ")
	default:
		return e.Detail
	}
}
