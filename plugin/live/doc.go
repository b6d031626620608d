// Package live keeps the plugins of a [admit.Snapshot] running: it loads a plugin when the
// first probe asks for it, replaces it when its file changes, withdraws it when its file
// goes, and unloads it when nothing has used it for a while.
//
// Read decide.go first: a pure function from the state of a plugin, its entry in the snapshot
// and its users to one [action]. manager.go has the [Manager], which keeps one record for each
// name and applies snapshots to them. record.go is that record: its state, and the lock that
// lets one goroutine at a time change it. execute.go carries out actions; shadow.go does so for
// shadows, the versions that run beside a plugin for comparison. prepare.go binds probes, and
// loads plugins for them. status.go has the status for the API and the metrics.
//
// Two things use a plugin: probes, from Prepare to Release, and the holds of manifests on the
// plugins that they name ([Manager.Hold]).
package live
