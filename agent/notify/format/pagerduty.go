package format

import (
	"encoding/json"
	"time"
)

const (
	pagerDutyProbes  = 50
	pagerDutyBytes   = 256 << 10 // PagerDuty accepts 512 KiB
	pagerDutySummary = 1024      // characters
)

type pagerDutyEvent struct {
	RoutingKey  string            `json:"routing_key"`
	EventAction string            `json:"event_action"`
	DedupKey    string            `json:"dedup_key"`
	Client      string            `json:"client,omitempty"`
	ClientURL   string            `json:"client_url,omitempty"`
	Payload     *pagerDutyPayload `json:"payload,omitempty"`
	Links       []pagerDutyLink   `json:"links,omitempty"`
}

type pagerDutyPayload struct {
	Summary   string           `json:"summary"`
	Source    string           `json:"source"`
	Severity  string           `json:"severity"`
	Timestamp string           `json:"timestamp"`
	Component string           `json:"component,omitempty"`
	Group     string           `json:"group,omitempty"`
	Class     string           `json:"class,omitempty"`
	Details   pagerDutyDetails `json:"custom_details"`
}

type pagerDutyDetails struct {
	Counts  Counts  `json:"counts"`
	Probes  []Probe `json:"probes"`
	Omitted int     `json:"omitted,omitempty"`
}

type pagerDutyLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

// pagerDuty returns an event for PagerDuty's Events API v2. Each group is one incident.
func pagerDuty(m *Message, routingKey string) ([]byte, error) {
	return m.renderWithin(pagerDutyProbes, pagerDutyBytes, func(m *Message) ([]byte, error) {
		e := pagerDutyEvent{RoutingKey: routingKey, EventAction: "trigger", DedupKey: m.ID, Client: "prober", ClientURL: m.URL}
		if m.Status == Resolved {
			e.EventAction = "resolve"
		}
		severity := map[string]string{"failure": "critical", "unknown": "error", "warning": "warning", "success": "info"}[m.Severity()]
		e.Payload = &pagerDutyPayload{
			Summary: cut(m.Title, pagerDutySummary), Source: m.Host, Severity: severity, Timestamp: m.Time.Format(time.RFC3339Nano),
			Group: m.Group["namespace"], Details: pagerDutyDetails{m.Counts, m.Probes, m.Omitted},
		}
		if e.Payload.Source == "" {
			e.Payload.Source = "prober"
		}
		for i := range m.Probes {
			p := &m.Probes[i]
			if i == 0 {
				e.Payload.Component, e.Payload.Class = p.Pod, p.Reason
			}
			if p.URL != "" {
				e.Links = append(e.Links, pagerDutyLink{p.URL, p.sentence("")})
			}
		}
		return json.Marshal(&e)
	})
}
