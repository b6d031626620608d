package api

import "time"

// NotificationList is the response of /api/v1/notifications.
type NotificationList struct {
	Items []Receiver `json:"items"`
}

// Receiver is the status of a receiver of notifications in prober.yaml.
type Receiver struct {
	Name string `json:"name"`
	// Type is the kind of receiver, such as "webhook slack", "exec" and "mail".
	Type string `json:"type"`
	// State is "ok", "failing" if the last message was not delivered and is retried, "refused" if it is not
	// retried until something changes, or "unused" if there was no message yet.
	State string `json:"state"`
	// FailingSince is when delivery first failed.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Error is the error of the last message.
	Error string `json:"error,omitzero"`
	// LastSent is when a message was last delivered.
	LastSent time.Time `json:"lastSent,omitzero"`
	// Answer is the receiver's response to the last message that was delivered.
	Answer string `json:"answer,omitzero"`
	// QuietUntil is the end of the present quiet hours of the receiver. Until then nothing is sent.
	QuietUntil time.Time `json:"quietUntil,omitzero"`
	// Maintenance is the present maintenance window of this receiver, in which it gets no message about what begins
	// to fail. Of several it is the one that ends last. Windows of all receivers are not here.
	Maintenance *Maintenance `json:"maintenance,omitempty"`
	// Delivered, Failed and Refused count attempts to send a message.
	Delivered uint64 `json:"delivered"`
	Failed    uint64 `json:"failed"`
	Refused   uint64 `json:"refused"`
	// Dropped counts incidents that ended and could not be sent within the retention.
	Dropped uint64 `json:"dropped"`
	// Pending is the number of probes with news that the receiver does not have.
	Pending int `json:"pending"`
	// Open is the number of probes that the receiver knows to be failing.
	Open int `json:"open"`
	// Alerts are the newest incidents that the receiver knows or must be told, at most 100.
	Alerts []Alert `json:"alerts"`
}

// Alert is an incident of a probe.
type Alert struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Kind      string `json:"kind"`
	Handler   string `json:"handler"`
	// Target is what the probe probes, such as "GET https://shop.example/healthz"; absent if unknown.
	Target string `json:"target,omitzero"`
	// Labels are the labels of the pod or the target when the incident began, as messages have them.
	Labels map[string]string `json:"labels,omitempty"`
	// State is "failure", "warning", "unknown", or "success" if the incident has ended.
	State string `json:"state"`
	// Told is the state that the receiver knows; "success" if it knows of no incident.
	Told  string    `json:"told"`
	Since time.Time `json:"since"`
	// Reason and Text come from the attempt that caused the state.
	Reason string `json:"reason,omitzero"`
	Text   string `json:"text,omitzero"`
	// Maintenance reports whether the probe is in a maintenance window of all receivers or of this one, which gets
	// no message.
	Maintenance bool `json:"maintenance,omitzero"`
}

// NotificationTest is the result of sending a test message.
type NotificationTest struct {
	Receiver string `json:"receiver"`
	// Delivered reports whether the receiver accepted the message.
	Delivered bool `json:"delivered"`
	// Answer is the response, such as "200 OK", or the error.
	Answer          string  `json:"answer"`
	DurationSeconds float64 `json:"durationSeconds"`
}
