package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// argument is one argument of a command, or a group of arguments. A group is omitted if one of its
// references has no value.
type argument struct {
	words    []word
	optional bool
}

// word is a text with references: parts[i] is the text before the reference names[i].
type word struct {
	parts, names []string
}

func parseArgument(a plugin.Argument) argument {
	if a.Group == nil {
		return argument{words: []word{parseWord(a.Text)}}
	}
	group := argument{optional: true}
	for _, text := range a.Group {
		group.words = append(group.words, parseWord(text))
	}
	return group
}

func parseWord(text string) (w word) {
	from := 0
	for _, m := range plugin.Placeholder().FindAllStringSubmatchIndex(text, -1) {
		w.parts, w.names = append(w.parts, text[from:m[0]]), append(w.names, text[m[2]:m[3]])
		from = m[1]
	}
	w.parts = append(w.parts, text[from:])
	return w
}

// checkConfig returns an error for a config value that is required but not set, or that cannot be an
// argument.
func (a *argument) checkConfig(config map[string]any) error {
	for _, w := range a.words {
		known := true // all values come from the config
		for _, name := range w.names {
			_, ok, err := lookup(name, config, &probe.Request{})
			isConfig := strings.HasPrefix(name, "config.")
			switch {
			case err != nil:
				return err
			case isConfig && !ok && !a.optional:
				return fmt.Errorf("%s is not set", name)
			}
			known = known && isConfig && ok
		}
		if !known {
			continue
		}
		if _, _, err := w.expand(config, &probe.Request{}); err != nil {
			return err
		}
	}
	return nil
}

// expand returns the words of the argument, with values in place of references.
func (a *argument) expand(config map[string]any, req *probe.Request) ([]string, error) {
	var words []string
	for _, w := range a.words {
		text, missing, err := w.expand(config, req)
		switch {
		case err != nil:
			return nil, err
		case missing != "" && a.optional:
			return nil, nil
		case missing != "":
			return nil, fmt.Errorf("%s is not set", missing)
		}
		words = append(words, text)
	}
	return words, nil
}

// expand returns w as an argument, or in missing the first reference without a value.
func (w *word) expand(config map[string]any, req *probe.Request) (text, missing string, err error) {
	text, first, missing, err := w.fill(config, req)
	if err == nil && first != "" && strings.HasPrefix(text, "-") && !number().MatchString(text) {
		return "", "", fmt.Errorf("%s begins with a dash: it would be taken for an option", first)
	}
	return text, missing, err
}

// fill returns the text of w with values in place of references. first is the reference at the beginning
// of the text, if there is one. missing is the first reference without a value.
func (w *word) fill(config map[string]any, req *probe.Request) (text, first, missing string, err error) {
	var b strings.Builder
	for i, name := range w.names {
		value, ok, err := lookup(name, config, req)
		if err != nil || !ok {
			return "", "", name, err
		}
		b.WriteString(w.parts[i])
		if b.Len() == 0 && value != "" {
			first = name
		}
		b.WriteString(value)
	}
	b.WriteString(w.parts[len(w.names)])
	return b.String(), first, "", nil
}

// number matches the only values that may begin with a dash. Otherwise the config of a probe could turn
// an argument into an option.
var number = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?$`) })

// lookup returns the value of a reference. ok is false if it is not set.
func lookup(name string, config map[string]any, req *probe.Request) (value string, ok bool, err error) {
	if path, isConfig := strings.CutPrefix(name, "config."); isConfig {
		return configValue(path, config)
	}
	known := map[string]string{
		"target.host": req.Target.Host, "target.port": positive(int64(req.Target.Port)), "target.unix": req.Target.Unix,
		"pod.name": "", "pod.namespace": "", "container.name": "", "kind": req.Kind.String(), "attempt": positive(int64(req.Attempt)),
		// In whole seconds, and longer than the timeout of the probe, so that prober ends the check.
		"timeout": positive(int64(req.Spec.Timeout.Seconds()) + 1),
	}
	if req.Pod != nil {
		known["pod.name"], known["pod.namespace"] = req.Pod.Name, req.Pod.Namespace
	}
	if req.Container != nil {
		known["container.name"] = req.Container.Name
	}
	value, isKnown := known[name]
	if !isKnown {
		return "", false, fmt.Errorf("unknown reference {{%s}}; known: config.…, %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return value, value != "", nil
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// configValue returns the scalar at a dotted path.
func configValue(path string, config map[string]any) (string, bool, error) {
	var at any = config
	for step := range strings.SplitSeq(path, ".") {
		object, _ := at.(map[string]any)
		if at = object[step]; at == nil {
			return "", false, nil
		}
	}
	switch v := at.(type) {
	case string:
		return v, !strings.ContainsRune(v, 0), nil
	case bool:
		return strconv.FormatBool(v), true, nil
	case float64:
		text, err := json.Marshal(v)
		return string(text), err == nil, err
	default:
		return "", false, fmt.Errorf("config.%s must be a string, number or bool", path)
	}
}
