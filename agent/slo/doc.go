// Package slo measures the objectives of prober.yaml: how much of their probes' time was good and bad.
//
// tracker.go follows the states of probes, and has running sums for each objective, so that neither a
// scrape nor a request reads the history. sums.go has the sums by minute and hour, and computes error
// budgets and burn rates. past.go adds the time before the agent knew an objective, from the history.
// file.go keeps the sums over restarts: they include pods that are gone, whose labels the history does not
// have.
package slo
