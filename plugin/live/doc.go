// Package live keeps the plugins of an [admit.Snapshot] running. It loads a plugin for the first
// probe that uses it, replaces it when its file changes, withdraws it when its file is removed, and
// unloads it when it has been unused for a while.
//
// Read decide.go first: a pure function from the state of a plugin, its entry in the snapshot
// and its users to one [action]. manager.go has the [Manager], which keeps one record for each
// name and applies snapshots to them. record.go has the record: its state, and the lock under which
// one goroutine at a time changes it. execute.go carries out actions; shadow.go does so for
// shadows, the versions that run beside a plugin for comparison. prepare.go binds probes, and
// loads plugins for them. status.go has the status for the API and the metrics.
//
// A plugin is in use from Prepare to Release of each probe, and while a manifest that names it holds
// it ([Manager.Hold]).
package live
