package api

import "time"

// Maintenance is the present maintenance window of a probe: its attempts go on, and nobody is notified of a
// failure that begins. Of several windows it is the one that ends last.
type Maintenance struct {
	// Name is the name of the window.
	Name string `json:"name"`
	// Until is when the window ends.
	Until time.Time `json:"until"`
	// Reason is the reason for the window.
	Reason string `json:"reason,omitzero"`
}

// Text returns the maintenance for people, with its end in a layout of package time and a time zone.
func (m *Maintenance) Text(layout string, zone *time.Location) string {
	text := InMaintenance + " " + m.Name + " until " + m.Until.In(zone).Format(layout)
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text
}

// ProbeMatch selects probes that match all its fields. Each field except Kind and Labels is a pattern, in
// which * matches any characters.
type ProbeMatch struct {
	Namespace string `json:"namespace,omitzero"`
	Pod       string `json:"pod,omitzero"`
	Container string `json:"container,omitzero"`
	// Kind is "liveness", "readiness" or "startup".
	Kind    string `json:"kind,omitzero"`
	Handler string `json:"handler,omitzero"`
	// Labels is a selector of labels of the pod or the target, such as "app=shop,tier!=cache".
	Labels string `json:"labels,omitzero"`
}

// MaintenanceRequest is the body of a request to start a maintenance window. One of For and Until is required.
type MaintenanceRequest struct {
	// Name identifies the window; absent for a name that the agent chooses.
	Name string `json:"name,omitzero"`
	// Match selects probes that match at least one entry; absent for all probes.
	Match []ProbeMatch `json:"match,omitempty"`
	// From is when the window begins; absent for now.
	From time.Time `json:"from,omitzero"`
	// Until is when it ends.
	Until time.Time `json:"until,omitzero"`
	// For is how long it lasts, such as "2h".
	For string `json:"for,omitzero"`
	// Reason is shown with the probes, at most 256 bytes on one line.
	Reason string `json:"reason,omitzero"`
	// Uptime is "exclude" if reports count the time for no state, which is the default, or "count".
	Uptime string `json:"uptime,omitzero"`
	// Receivers are the receivers of notifications that the window concerns; absent for all. With receivers it
	// changes nothing but their messages, and Uptime must be absent.
	Receivers []string `json:"receivers,omitempty"`
}

// MaintenanceList is the response of /api/v1/maintenance.
type MaintenanceList struct {
	// Items are the windows: first from prober.yaml, then from clients.
	Items []MaintenanceWindow `json:"items"`
}

// MaintenanceWindow is a maintenance window.
type MaintenanceWindow struct {
	Name string `json:"name"`
	// Active is whether the window has begun and not ended.
	Active bool `json:"active"`
	// From and Until are the begin and the end of the window. For a window on a schedule they are its present
	// or next ones, and absent for a window of prober.yaml that is over.
	From   time.Time `json:"from,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitzero"`
	// Uptime is "exclude" if reports count the time for no state, or "count".
	Uptime string `json:"uptime"`
	// Match selects the probes of the window; absent for all probes.
	Match []ProbeMatch `json:"match,omitempty"`
	// Probes is the number of present probes that it selects.
	Probes int `json:"probes"`
	// By is who has started it, such as "uid 0, with the socket"; absent for a window of prober.yaml.
	By string `json:"by,omitzero"`
	// Receivers are the only receivers that the window concerns; absent for all. Probes are not in maintenance
	// because of such a window.
	Receivers []string `json:"receivers,omitempty"`
}
