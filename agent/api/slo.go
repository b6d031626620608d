package api

import "time"

// SLOList is the response of /api/v1/slos.
type SLOList struct {
	// Items are the objectives of prober.yaml, in its order.
	Items []SLO `json:"items"`
}

// SLO is an objective for the availability of probes. Its seconds are the time of all its probes together:
// a minute of ten probes is 600 seconds. Time counts as in reports: success and warning are good, failure
// is bad, and the rest is not measured.
type SLO struct {
	Name string `json:"name"`
	// Objective is the percentage of the measured time that shall be good, such as 99.9.
	Objective float64 `json:"objective"`
	// Window is the time before now that counts, such as "30d".
	Window string `json:"window"`
	// Kinds are the kinds of probes that count.
	Kinds []string `json:"kinds"`
	// Match selects the probes; absent for all probes of the kinds.
	Match []ProbeMatch `json:"match,omitempty"`
	// Maintenance is "exclude" if the time of maintenance windows is not measured, or "count".
	Maintenance string `json:"maintenance"`
	// Probes is the number of present probes, and Failing how many of them are bad now.
	Probes  int `json:"probes"`
	Failing int `json:"failing"`
	// Since is the begin of the measured time within the window; absent if there is none.
	Since       time.Time `json:"since,omitzero"`
	GoodSeconds float64   `json:"goodSeconds"`
	BadSeconds  float64   `json:"badSeconds"`
	// Availability is the good fraction of the measured time; absent without measured time.
	Availability *float64    `json:"availability,omitempty"`
	Budget       ErrorBudget `json:"budget"`
	// BurnRates are the speeds at which the budget is spent, for windows that end now.
	BurnRates []BurnRate `json:"burnRates"`
}

// ErrorBudget is the bad time that an objective allows.
type ErrorBudget struct {
	// TotalSeconds is the allowed part of the measured time.
	TotalSeconds float64 `json:"totalSeconds"`
	SpentSeconds float64 `json:"spentSeconds"`
	// LeftSeconds is negative if more is spent than is allowed.
	LeftSeconds float64 `json:"leftSeconds"`
	// Left is the fraction that is left, at most 1; absent without measured time.
	Left *float64 `json:"left,omitempty"`
}

// BurnRate is the speed at which a budget is spent: 1 spends exactly the budget within the window of the
// objective.
type BurnRate struct {
	// Window is the time before now, such as "1h".
	Window string `json:"window"`
	// Rate is absent if no time was measured.
	Rate *float64 `json:"rate,omitempty"`
}
