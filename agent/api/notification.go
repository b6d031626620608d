package api

import "time"

// NotificationList is the receivers of notifications.
type NotificationList struct {
	Items []Receiver `json:"items"`
}

// Receiver is a receiver of notifications of prober.yaml, and what it knows.
type Receiver struct {
	Name string `json:"name"`
	// Type is such as "webhook slack", "exec" and "mail".
	Type string `json:"type"`
	// State is "ok", "failing" if the last message was not delivered and is tried again, "refused" if it is not
	// tried again until something changes, or "unused" if there was no message yet.
	State string `json:"state"`
	// FailingSince is when the first message was not delivered.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Error is that of the last message.
	Error string `json:"error,omitzero"`
	// LastSent is when a message was last delivered.
	LastSent time.Time `json:"lastSent,omitzero"`
	// Answer is that of the receiver to the last message that was delivered.
	Answer string `json:"answer,omitzero"`
	// Delivered, Failed and Refused are attempts to send a message.
	Delivered uint64 `json:"delivered"`
	Failed    uint64 `json:"failed"`
	Refused   uint64 `json:"refused"`
	// Dropped are incidents that were over and could not be told within the retention.
	Dropped uint64 `json:"dropped"`
	// Pending is how many probes have something that the receiver does not know.
	Pending int `json:"pending"`
	// Open is how many probes the receiver knows to be failing.
	Open int `json:"open"`
	// Alerts are the newest of the incidents that it knows, or has to be told: at most 100.
	Alerts []Alert `json:"alerts"`
}

// Alert is an incident of a probe.
type Alert struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Kind      string `json:"kind"`
	Handler   string `json:"handler"`
	// Target says what the probe probes, such as "GET https://shop.example/healthz"; absent if unknown.
	Target string `json:"target,omitzero"`
	// State is "failure", "warning", "unknown", or "success" if it is over.
	State string `json:"state"`
	// Told is the state that the receiver knows; "success" if it knows of none.
	Told  string    `json:"told"`
	Since time.Time `json:"since"`
	// Reason and Text are those of the attempt that made the state.
	Reason string `json:"reason,omitzero"`
	Text   string `json:"text,omitzero"`
}

// NotificationTest is the answer of a receiver to a test message.
type NotificationTest struct {
	Receiver string `json:"receiver"`
	// Delivered is whether the receiver has taken the message.
	Delivered bool `json:"delivered"`
	// Answer is such as "200 OK"; or why it was not taken.
	Answer          string  `json:"answer"`
	DurationSeconds float64 `json:"durationSeconds"`
}
