package declared

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/probe"
)

// Annotation is the pod annotation for probes that v1.Probe cannot express: a YAML mapping from container
// to kind to probe.
const Annotation = "prober.dev/probes"

func annotationPath() *field.Path { return field.NewPath("metadata", "annotations").Key(Annotation) }

// minDuration is the shortest period and timeout that the annotation accepts.
const minDuration = 10 * time.Millisecond

// annotationProbe is one probe of the annotation: the fields of v1.Probe and more. The configs of built-in
// handlers are decoded separately.
type annotationProbe struct {
	Plugin *pluginAction `json:"plugin"`
	severalChecks
	times
	SuccessThreshold              *int32 `json:"successThreshold"`
	FailureThreshold              *int32 `json:"failureThreshold"`
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds"`
	WarningAs                     string `json:"warningAs"`
	ErrorPolicy                   string `json:"errorPolicy"`
	InitialState                  string `json:"initialState"`
	Jitter                        string `json:"jitter"`
	Paused                        bool   `json:"paused"`
}

// times has both spellings of each duration.
type times struct {
	InitialDelaySeconds *int32        `json:"initialDelaySeconds"`
	PeriodSeconds       *int32        `json:"periodSeconds"`
	TimeoutSeconds      *int32        `json:"timeoutSeconds"`
	InitialDelay        *durationText `json:"initialDelay"`
	Period              *durationText `json:"period"`
	Timeout             *durationText `json:"timeout"`
	UnhealthyPeriod     *durationText `json:"unhealthyPeriod"`
}

// durationText is a duration such as 1m30s.
type durationText string

type pluginAction struct {
	Name   string          `json:"name"`
	Target pluginTarget    `json:"target"`
	Config json.RawMessage `json:"config"`
}

type pluginTarget struct {
	Host string              `json:"host"`
	Port *intstr.IntOrString `json:"port"`
	Unix string              `json:"unix"`
}

// parseAnnotation parses the annotation of pod. A probe with an error is nil in the map. The map is nil if
// the annotation cannot be parsed. refused has the names that may stand in the part that is invalid. left is
// the number of bytes left for the commands of the pod.
func parseAnnotation(pod *v1.Pod, left *int) (probes map[Name]*Probe, refused []Name, errs []error) {
	text, ok := pod.Annotations[Annotation]
	if !ok {
		return nil, nil, nil
	}
	path := annotationPath()
	asJSON, err := AnnotationJSON(text)
	if err != nil {
		return nil, everyProbe(pod), []error{field.Invalid(path, field.OmitValueType{}, clip.Marked(err.Error(), maxReason, "…"))}
	}
	var containers map[string]map[string]json.RawMessage
	if err := json.Unmarshal(asJSON, &containers); err != nil {
		return nil, everyProbe(pod), []error{field.Invalid(path, field.OmitValueType{}, "must be a mapping of container to kind to probe")}
	}
	probes = make(map[Name]*Probe)
	anyContainer := false
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		path := path.Key(name)
		c, err := probedContainer(pod, name, path)
		if err != nil { // its probes may be meant for any container
			errs, anyContainer = append(errs, err), true
			continue
		}
		anyKind := false
		for _, word := range slices.Sorted(maps.Keys(containers[name])) {
			kind, err := probe.ParseKind(word)
			if err != nil {
				errs, anyKind = append(errs, field.NotSupported(path, word, []string{"liveness", "readiness", "startup"})), true
				continue
			}
			config, list := fromAnnotation(c, kind, containers[name][word], path.Child(word), left)
			config.Refers = true
			for _, e := range list {
				errs = append(errs, e)
			}
			key := Name{name, kind}
			probes[key] = &config
			if len(list) > 0 {
				probes[key], refused = nil, append(refused, key)
			}
		}
		if anyKind {
			refused = append(refused, everyKind(name)...)
		}
	}
	if anyContainer {
		refused = everyProbe(pod)
	}
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("has %d more errors", more)))
	}
	return probes, refused, errs
}

// Limits of the errors of an annotation. Its author may cause tens of thousands.
const (
	maxErrors = 100
	maxReason = 4 << 10 // bytes of a message of the YAML parser
)

// AnnotationJSON converts the text of [Annotation] to JSON. All code must use it to read that text, because
// YAML and JSON differ in some characters and escapes. JSON text is not parsed as YAML, which takes twenty
// times as long; programs that make thousands of pods write JSON.
func AnnotationJSON(text string) ([]byte, error) {
	if b := []byte(text); len(b) > 0 && b[0] == '{' && json.Valid(b) && !repeatsNames(b) {
		return b, nil
	}
	if err := checkYAML(text); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict([]byte(text))
}

// maxAliases limits the expanded size of the aliases in a YAML text, in bytes. The API server allows 256
// KiB for all annotations of a pod.
const maxAliases = 1 << 20

// checkYAML rejects a second document, which the decoder would drop, and aliases that expand to a too large
// text: an alias takes two bytes, and may stand for the rest of the text. It does not expand aliases,
// because that takes time for each one.
func checkYAML(text string) error {
	documents := yamlv3.NewDecoder(strings.NewReader(text))
	for n := 0; ; n++ {
		var document yamlv3.Node
		switch err := documents.Decode(&document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 0 && document.Content[0].ShortTag() != "!!null":
			return fmt.Errorf("line %d: must be one document: another one begins here", document.Content[0].Line)
		}
		a := aliases{known: make(map[*yamlv3.Node]int)}
		if a.size(&document); a.recursive != "" {
			return fmt.Errorf("anchor %q contains itself", a.recursive)
		}
		if a.added > maxAliases {
			return fmt.Errorf("the aliases expand to more than %d bytes", maxAliases)
		}
	}
}

// aliases adds up the expanded size of the aliases in a document.
type aliases struct {
	known     map[*yamlv3.Node]int // sizes of anchors; computing while one is being added up
	depth     int                  // number of aliases around the current node
	added     int
	recursive string // an anchor that contains itself
}

const computing = -1

// size returns the size of n with its aliases expanded, capped at maxAliases plus 1.
func (a *aliases) size(n *yamlv3.Node) int {
	if n.Kind == yamlv3.AliasNode {
		a.depth++
		size := a.size(n.Alias)
		if a.depth--; a.depth == 0 {
			a.added = min(a.added+size, maxAliases+1)
		}
		return size
	}
	if size, known := a.known[n]; known {
		if size == computing {
			a.recursive, size = n.Anchor, 0
		}
		return size
	}
	if n.Anchor != "" {
		a.known[n] = computing
	}
	size := 32 + len(n.Value)
	for _, child := range n.Content {
		size = min(size+a.size(child), maxAliases+1)
	}
	if n.Anchor != "" {
		a.known[n] = size
	}
	return size
}

// repeatsNames reports whether an object in a valid JSON text has a duplicate name.
func repeatsNames(text []byte) bool {
	type level struct {
		names map[string]bool // nil for a list
		value bool            // the next token is a value
	}
	var levels []level
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			return false // end of the text
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if n := len(levels); n > 0 && levels[n-1].names != nil {
			at := &levels[n-1]
			if at.value = !at.value; at.value {
				name, _ := token.(string)
				if at.names[name] {
					return true
				}
				at.names[name] = true
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: make(map[string]bool)})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

// everyProbe returns the names of all probes that an annotation of pod may declare.
func everyProbe(pod *v1.Pod) (names []Name) {
	for c := range Containers(pod) {
		names = append(names, everyKind(c.Name)...)
	}
	return names
}

func everyKind(container string) (names []Name) {
	for _, kind := range probe.Kinds {
		names = append(names, Name{container, kind})
	}
	return names
}

// probedContainer returns the container called name, or an error if it cannot have probes.
func probedContainer(pod *v1.Pod, name string, path *field.Path) (*v1.Container, error) {
	c, sidecar := Container(pod, name)
	if c == nil {
		return nil, field.NotFound(path, name)
	}
	if !sidecar && ContainerNamed(pod.Spec.InitContainers, name) != nil {
		return nil, field.Forbidden(path, "an init container has probes only with restartPolicy Always")
	}
	return c, nil
}

// fromAnnotation parses one probe of the annotation. left is the number of bytes left for the commands of
// the pod. It is nil for a template, which may omit the port of a built-in handler and does not expand
// variables.
func fromAnnotation(c *v1.Container, kind probe.Kind, raw json.RawMessage, path *field.Path, left *int) (Probe, field.ErrorList) {
	var a annotationProbe
	actions, raw, errs := builtinFields(raw, path)
	if errs = append(errs, decodeStrict(raw, &a, path, builtinNames()...)...); len(errs) > 0 {
		return Probe{}, errs
	}
	config := Probe{
		Path: path, Container: c.Name, Kind: kind, Paused: a.Paused, parsed: true,
		TerminationGracePeriodSeconds: a.TerminationGracePeriodSeconds,
	}
	config.Spec = a.spec(path, &errs)
	a.shape(&config, &errs)
	if g := a.TerminationGracePeriodSeconds; g != nil {
		if *g <= 0 {
			errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
		}
		if kind == probe.Readiness {
			errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *g, "must not be set for readiness probes"))
		}
	}
	if field, rule := a.rule(path, &errs); field != "" {
		config.combine(rule, a.Plugin != nil || hasAction(actions), c, path.Child(field), left, &errs)
	} else {
		config.setHandlerOf(a.Plugin, actions, c, path, left, &errs)
	}
	return config, errs
}

func hasAction(actions []action) bool {
	return slices.ContainsFunc(actions, func(a action) bool { return a != nil })
}

// builtinNames returns the fields of probes that have the configs of built-in handlers.
func builtinNames() (names []string) {
	for i := range builtins {
		names = append(names, builtins[i].Field)
	}
	return names
}

// builtinFields decodes the configs of built-in handlers in a probe. actions has an element for each entry
// of builtins, nil if it is not set. rest is the probe without these configs.
func builtinFields(raw json.RawMessage, path *field.Path) (actions []action, rest json.RawMessage, errs field.ErrorList) {
	actions = make([]action, len(builtins))
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return actions, raw, nil // not an object: reported for the whole probe
	}
	found := false
	for i := range builtins {
		b := &builtins[i]
		config, ok := fields[b.Field]
		if !ok {
			continue
		}
		found = true
		delete(fields, b.Field)
		if string(config) == "null" {
			continue
		}
		actions[i] = b.config()
		errs = append(errs, decodeStrict(config, actions[i], path.Child(b.Field))...)
	}
	if !found {
		return actions, raw, nil
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return actions, rest, errs
}

// setHandlerOf makes c a probe of a plugin, or of the built-in handler in actions. The probe or check is at path
// of the annotation of a pod, in the container in.
func (c *Probe) setHandlerOf(p *pluginAction, actions []action, in *v1.Container, path *field.Path, left *int, errs *field.ErrorList) {
	if p == nil {
		checked := slices.Clone(actions)
		for i, a := range actions {
			if a == nil {
				continue
			}
			a.setDefaults()
			if left == nil && a.place().Port == (intstr.IntOrString{}) {
				checked[i], _ = a.forDestination(Destination{Port: 1}) // any port is valid here
			}
		}
		*errs = append(*errs, validateActions(checked, path)...)
		if i := slices.IndexFunc(actions, func(a action) bool { return a != nil }); i >= 0 {
			if left != nil {
				var err error
				if actions[i], err = c.expand(actions[i], in.Env, left); err != nil {
					*errs = append(*errs, field.Invalid(path.Child("exec", "command"), field.OmitValueType{}, err.Error()))
				}
			}
			c.setBuiltin(&builtins[i], actions[i], path, errs)
		}
		return
	}
	plugin := path.Child("plugin")
	if hasAction(actions) {
		*errs = append(*errs, field.Forbidden(plugin, "may not specify more than 1 handler type"))
	}
	if p.Name == "" {
		*errs = append(*errs, field.Required(plugin.Child("name"), ""))
	}
	c.Handler, c.Config = p.Name, compactJSON(p.Config)
	c.Target = p.Target.resolve(in, plugin.Child("target"), errs)
	switch b := builtinNamed(p.Name); {
	case c.Config[0] != '{':
		*errs = append(*errs, field.Invalid(plugin.Child("config"), field.OmitValueType{}, "must be an object"))
	case b != nil: // so that the handler and the policy of an agent see one spelling of each field
		c.asPlugin = true
		action := b.config()
		*errs = append(*errs, decodeStrict(c.Config, action, plugin.Child("config"))...)
		c.setBuiltin(b, action, plugin.Child("config"), errs)
	}
}

// setBuiltin makes c a probe of a built-in handler, whose config is at path.
func (c *Probe) setBuiltin(b *Builtin, a action, path *field.Path, errs *field.ErrorList) {
	if err := c.setAction(b, a); err != nil {
		*errs = append(*errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
}

func (t *pluginTarget) resolve(c *v1.Container, path *field.Path, errs *field.ErrorList) probe.Target {
	target := probe.Target{Host: t.Host, Unix: t.Unix}
	if t.Unix != "" && (t.Host != "" || t.Port != nil) {
		*errs = append(*errs, field.Forbidden(path.Child("unix"), "may not be set together with host or port"))
	}
	if t.Port != nil {
		port, err := namedPort(*t.Port, c)
		if err != nil {
			*errs = append(*errs, field.Invalid(path.Child("port"), t.Port.String(), err.Error()))
		}
		target.Port = port
	}
	return target
}

// spec parses durations, thresholds and policies, with the API's defaults.
func (a *annotationProbe) spec(path *field.Path, errs *field.ErrorList) probe.Spec {
	s := probe.Spec{
		InitialDelay:     duration(path, "initialDelay", a.InitialDelay, a.InitialDelaySeconds, 0, 0, errs),
		Period:           duration(path, "period", a.Period, a.PeriodSeconds, 10*time.Second, minDuration, errs),
		Timeout:          duration(path, "timeout", a.Timeout, a.TimeoutSeconds, time.Second, minDuration, errs),
		SuccessThreshold: threshold(path.Child("successThreshold"), a.SuccessThreshold, 1, errs),
		FailureThreshold: threshold(path.Child("failureThreshold"), a.FailureThreshold, 3, errs),
	}
	switch a.WarningAs {
	case "", "success":
	case "failure":
		s.WarningIsFailure = true
	default:
		*errs = append(*errs, field.NotSupported(path.Child("warningAs"), a.WarningAs, choices("warningAs")))
	}
	switch a.ErrorPolicy {
	case "", "discard":
	case "failure":
		s.ErrorPolicy = probe.CountAsFailure
	default:
		*errs = append(*errs, field.NotSupported(path.Child("errorPolicy"), a.ErrorPolicy, choices("errorPolicy")))
	}
	return s
}

// shape parses the fields that v1.Probe has nothing like: the period of an unhealthy container, the jitter
// and the initial state.
func (a *annotationProbe) shape(c *Probe, errs *field.ErrorList) {
	s := &c.Spec
	if a.UnhealthyPeriod != nil {
		s.UnhealthyPeriod = duration(c.Path, "unhealthyPeriod", a.UnhealthyPeriod, nil, 0, minDuration, errs)
	}
	if a.Jitter != "" {
		percent, ok := strings.CutSuffix(a.Jitter, "%")
		n, err := strconv.ParseFloat(percent, 64)
		if s.Jitter = n / 100; !ok || err != nil || !(s.Jitter >= 0 && s.Jitter <= 1) {
			*errs = append(*errs, field.Invalid(c.Path.Child("jitter"), a.Jitter, "must be a share of the period from 0% to 100%"))
		}
	}
	at := c.Path.Child("initialState")
	switch a.InitialState {
	case "", probe.Unknown.String():
		return
	case probe.Success.String():
		s.Initial = probe.Success
	case probe.Failure.String():
		s.Initial = probe.Failure
	default:
		*errs = append(*errs, field.NotSupported(at, a.InitialState, choices("initialState")))
	}
	if c.Kind != probe.Readiness {
		*errs = append(*errs, field.Invalid(at, a.InitialState, "must be set for readiness probes only"))
	}
}

// choices returns the values of a field of a probe that has few, sorted; nil for a field with other values.
func choices(name string) []string {
	return map[string][]string{
		"warningAs":    {"failure", "success"},
		"errorPolicy":  {"discard", "failure"},
		"initialState": {"failure", "success", "unknown"},
		"scheme":       {string(v1.URISchemeHTTP), string(v1.URISchemeHTTPS)},
	}[name]
}

// duration parses a duration that has two spellings, NAME and NAMESeconds.
func duration(path *field.Path, name string, text *durationText, seconds *int32, fallback, least time.Duration, errs *field.ErrorList) time.Duration {
	at, value := path.Child(name), fallback
	var err error
	switch {
	case text != nil && seconds != nil:
		*errs = append(*errs, field.Forbidden(at, "may not be set together with "+name+"Seconds"))
	case text != nil:
		if value, err = time.ParseDuration(string(*text)); err != nil {
			*errs = append(*errs, field.Invalid(at, string(*text), strings.TrimPrefix(err.Error(), "time: ")))
			return fallback
		}
	case seconds != nil:
		at, value = path.Child(name+"Seconds"), time.Duration(*seconds)*time.Second
		if *seconds == 0 { // as in v1.Probe
			value = fallback
		}
	}
	if value < least {
		*errs = append(*errs, field.Invalid(at, value.String(), "must be at least "+least.String()))
	}
	return value
}

func threshold(path *field.Path, n *int32, fallback int, errs *field.ErrorList) int {
	switch {
	case n == nil || *n == 0:
		return fallback
	case *n < 0:
		*errs = append(*errs, field.Invalid(path, *n, "must be at least 1"))
	}
	return int(*n)
}

// compactJSON returns raw without white space, "{}" for an empty or null config.
func compactJSON(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Compact(&b, raw) != nil {
		return []byte("{}")
	}
	return b.Bytes()
}

// decodeStrict decodes raw into into, a pointer to a struct. Its errors name the field if it is unknown,
// compared case-sensitively, or has a wrong type. also are other fields that raw may have had.
func decodeStrict(raw json.RawMessage, into any, path *field.Path, also ...string) (errs field.ErrorList) {
	unknown, err := kjson.UnmarshalStrict(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		name := wrong.Field
		for _, embedded := range [...]string{"times.", "severalChecks.", "HTTPGetAction."} { // not part of the path
			name = strings.TrimPrefix(name, embedded)
		}
		path = path.Child(name)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, jsonReason(err))}
	}
	for _, err := range unknown {
		at, reason := path, err.Error()
		if f, ok := errors.AsType[kjson.FieldError](err); ok {
			at, reason = path.Child(f.FieldPath()), "unknown field"+guess(reflect.TypeOf(into), f.FieldPath(), also)
		}
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, reason))
	}
	return errs
}

// guess returns which field of a struct, or of a struct within it, an unknown one was meant to be; "" for none. also
// are other fields of the outer struct.
func guess(t reflect.Type, path string, also []string) string {
	parts := strings.Split(path, ".")
	for i, name := range parts {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return ""
		}
		fields := make(map[string]reflect.Type)
		for _, f := range reflect.VisibleFields(t) {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
				fields[tag] = f.Type
			}
		}
		if i == len(parts)-1 {
			known := slices.Sorted(maps.Keys(fields))
			if i == 0 {
				known = append(known, also...)
			}
			return didYouMean(name, known)
		}
		name, _, _ = strings.Cut(name, "[")
		if t = fields[name]; t == nil {
			return ""
		}
	}
	return ""
}

// didYouMean returns the end of an error about an unknown name; "" if no known one is like it.
func didYouMean(name string, known []string) string {
	found := nearest.Name(name, known)
	if name == "interval" && slices.Contains(known, "period") { // as Prometheus, Gatus and others call it
		found = "period"
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", found)
}

func jsonReason(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	if wrong.Type == reflect.TypeFor[durationText]() {
		return "must be a duration such as 50ms, 1s or 1m30s"
	}
	switch wrong.Type.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Slice:
		return "must be a list"
	case reflect.Struct, reflect.Map:
		return "must be a mapping"
	default:
		return "must be an integer"
	}
}
