package plugintest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// judge holds what came against what the case wants.
func (r *Result) judge() {
	want, got := r.c.Want, r.got
	var wanted, came []string
	line := func(name, w, g string, ok bool) {
		wanted = append(wanted, name+": "+w)
		if ok {
			g = w
		}
		came = append(came, name+": "+g)
	}
	line("result", want.Result, got.result(), want.Result == got.result())
	if want.Message.Source != "" {
		line("message", want.Message.Source, got.message(), want.Message.matches(got.message()))
	} else if want.Result != got.result() {
		came = append(came, "message: "+got.message())
	}
	for _, name := range slices.Sorted(maps.Keys(want.Metrics)) {
		b := want.Metrics[name]
		value, ok := got.metric(name)
		text := "(none)"
		if ok {
			text = strconv.FormatFloat(value, 'g', -1, 64)
		}
		line("metrics."+name, b.source, text, ok && b.hold(value))
	}
	if want.Denied != nil {
		w, g, ok := want.denials(got.denied)
		line("denied", w, g, ok)
	}
	if want.KV != nil {
		w, g := fmt.Sprintf("%q", want.KV), fmt.Sprintf("%q", got.kept)
		line("kv", w, g, w == g)
	}
	if b := want.VirtualTime; b != nil {
		line("virtualTime", b.source, got.virtual.String(), b.hold(got.virtual.Seconds()))
	}
	if b := want.Memory; b != nil {
		line("memory", b.source, bytesUnit.spell(float64(got.memory)), b.hold(float64(got.memory)))
	}
	if !slices.Equal(wanted, came) {
		r.Failures = append(r.Failures, "the answer is another than wanted")
		r.Diff = diff(wanted, came)
	}
	r.Failures = append(r.Failures, got.faults...)
	if !r.OK() {
		r.Trace, r.Peers = got.trace, got.peers
	}
}

func (a *answer) metric(name string) (float64, bool) {
	for _, m := range a.out.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}

// denials compares the denials that came with those that are wanted.
func (w Want) denials(came []string) (want, got string, ok bool) {
	var texts []string
	ok = len(came) == len(w.Denied)
	for i, t := range w.Denied {
		texts = append(texts, t.Source)
		ok = ok && (t.matches(came[i]) || t.regex == nil && strings.Contains(came[i], t.Source))
	}
	return fmt.Sprintf("%q", texts), fmt.Sprintf("%q", came), ok
}

// agree has the results of a case in all variants compared with the first.
func agree(results []Result) {
	first := make(map[string]*Result)
	for i := range results {
		r := &results[i]
		f, ok := first[r.Name]
		if !ok {
			first[r.Name] = r
			continue
		}
		if a, b := f.got.lines(), r.got.lines(); !slices.Equal(a, b) {
			r.Failures = append(r.Failures, "the answer is another than with "+f.Variant)
			r.Diff += diff(a, b)
		}
	}
}

// lines spells all of an answer that must not depend on the variant.
func (a *answer) lines() []string {
	lines := []string{"result: " + a.result(), "message: " + a.message()}
	for _, m := range a.out.Metrics {
		lines = append(lines, fmt.Sprintf("metrics.%s: %v%s %v", m.Name, m.Value, m.Unit, m.Labels))
	}
	return append(lines, fmt.Sprintf("denied: %q", a.denied), fmt.Sprintf("kv: %q", a.kept), "virtualTime: "+a.virtual.String())
}
