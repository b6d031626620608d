package format

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	alertmanagerBytes = 8 << 20
	// alertmanagerLasts is how long an alert lasts without a further message, in repeat intervals. Alerts of
	// Prometheus last as long.
	alertmanagerLasts = 4
	alertmanagerTest  = 5 * time.Minute // duration of the alert of a test
)

// alertmanagerAlert is a postableAlert of Alertmanager's API v2.
type alertmanagerAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// alertmanagerStates has the labels by state. The alerts of deploy/prometheus have the same names and severities.
var alertmanagerStates = []struct{ state, alertname, severity string }{
	{"failure", "ProberProbeFailing", "warning"}, {"unknown", "ProberProbeUnknown", "warning"}, {"warning", "ProberProbeWarning", "info"},
}

// alertmanager returns an alert for each probe. Each message about a group has all of its alerts, so that they
// last until the next one.
func alertmanager(in *Input) (*Request, error) {
	body, err := in.renderWithin(len(in.Probes), alertmanagerBytes, func(m *Message) ([]byte, error) {
		alerts := []alertmanagerAlert{}
		for i := range m.Probes {
			alerts = append(alerts, in.probeAlerts(&m.Probes[i])...)
		}
		if m.Status == Test {
			alerts = append(alerts, alertmanagerAlert{
				map[string]string{"alertname": "ProberTest", "severity": "info", "receiver": m.Receiver}, map[string]string{"summary": m.Title},
				m.Time, m.Time.Add(alertmanagerTest), m.URL,
			})
		}
		return encodeJSON(alerts)
	})
	return in.postTo(in.URL.JoinPath("api/v2/alerts"), body, err)
}

// probeAlerts returns the alert of a probe. Its name depends on the state: after a change, also the alerts of
// the other states are sent, as resolved.
func (in *Input) probeAlerts(p *Probe) (alerts []alertmanagerAlert) {
	for _, s := range alertmanagerStates {
		present := p.Status == Failing && s.state == p.State
		if !present && (p.New || in.Repeated) && p.Status == Failing {
			continue
		}
		a := alertmanagerAlert{
			Labels: in.alertLabels(p), Annotations: map[string]string{"summary": p.summary(p.sentence(""))}, StartsAt: p.Since, GeneratorURL: p.URL,
			EndsAt: in.Time.Add(alertmanagerLasts * in.Repeat),
		}
		a.Labels["alertname"], a.Labels["severity"] = s.alertname, s.severity
		if !present {
			a.EndsAt = slices.MaxFunc([]time.Time{p.Since, cmp.Or(p.Ended, in.Time)}, time.Time.Compare)
		}
		for _, f := range p.facts() {
			a.Annotations[cmp.Or(alertmanagerAnnotations[f.name], f.name)] = f.text
		}
		alerts = append(alerts, a)
	}
	return alerts
}

// alertmanagerAnnotations has the usual names of annotations, by fact.
var alertmanagerAnnotations = map[string]string{"runbook": "runbook_url"}

// alertLabels returns the labels of the alerts of p, with the labels of its pod or target.
func (in *Input) alertLabels(p *Probe) map[string]string {
	labels := make(map[string]string, len(p.Labels)+8)
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		labels[labelName(name)] = p.Labels[name]
	}
	maps.Copy(labels, map[string]string{
		"namespace": p.Namespace, "pod": p.Pod, "container": p.Container, "kind": p.Kind, "handler": p.Handler, "instance": in.Host,
	})
	return labels
}

// labelName returns name with an underscore for each character that no label of Prometheus may have.
func labelName(name string) string {
	valid := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, name)
	if valid == "" || '0' <= valid[0] && valid[0] <= '9' {
		valid = "_" + valid
	}
	return valid
}
