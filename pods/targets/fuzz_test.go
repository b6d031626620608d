package targets_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods"
)

// FuzzLists checks that any list leads to valid pods with unique names, and to a state for each target.
func FuzzLists(f *testing.F) {
	for _, text := range []string{
		`[{"targets": ["h:1", "[::1]:2", "https://u:p@h/a?b#c", "h:1", "é", ""], "labels": {"a": "b", "__c": "d", "e/f/g": "\u0000"}}]`,
		"- targets: [h, 10.0.0.1, 'h:99999']\n  labels: {name: '{{.address}}', x: ''}\n", "[", "[]x", "{}", "- {targets: [&a h, *a]}\n",
		`[{"targets": ["a.b", "a-b", "A:b", "xn--a", "0x7f.1", "1e3", "::ffff:1.2.3.4"], "labels": {"name": "same"}}]`,
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		name := map[bool]string{true: "t.json", false: "t.yaml"}[isJSON]
		r := newRig(t, `targets:
- {name: g, probe: {httpGet: {}}, file: [`+name+`]}
- name: named
  probe: {exec: {command: [$(TARGET_ADDRESS)]}, period: 1500ms}
  kind: liveness
  file: [`+name+`]
  relabel: [{name: '{{.labels.name}}'}, {labels: {a: '{{.host}}{{.port}}', '{{': '{{.address}}'}}, {drop: '{{eq .host "dropped"}}'}]
`)
		r.write(name, text)
		all, err := r.source.Generate(t.Context(), true, nil, r.check)
		if err != nil {
			t.Fatal(err)
		}
		names, uids := make(map[string]bool), make(map[string]bool)
		for _, d := range all {
			pod := d.Pod()
			checkPod(t, d)
			names[pod.Name], uids[string(pod.UID)] = true, true
		}
		if len(names) != len(all) || len(uids) != len(all) {
			t.Errorf("%d pods, %d names, %d UIDs", len(all), len(names), len(uids))
		}
		probed := 0
		for _, target := range r.source.Targets().Items {
			switch {
			case target.State == pods.TargetProbed && target.Reason == "" && names[target.Pod]:
				probed++
			case target.State != pods.TargetDropped || target.Reason == "":
				t.Errorf("%+v", target)
			}
		}
		if probed != len(all) {
			t.Errorf("%d targets are probed, by %d pods", probed, len(all))
		}
	})
}

func checkPod(t *testing.T, d *declared.Pod) {
	pod := d.Pod()
	errs := validation.IsDNS1123Label(pod.Name)
	for name, value := range pod.Labels {
		errs = append(append(errs, validation.IsQualifiedName(name)...), validation.IsValidLabelValue(value)...)
	}
	for _, err := range d.Errors() {
		errs = append(errs, err.Error())
	}
	host := pod.Annotations["prober.dev/address"]
	if len(validation.IsValidIP(nil, host)) > 0 && len(validation.IsDNS1123Subdomain(host)) > 0 {
		errs = append(errs, "the host is "+host)
	}
	if configs := d.Probes(); len(configs) != 1 || len(errs) > 0 {
		t.Errorf("%s: %d probes, %q", pod.Name, len(configs), errs)
	}
}
