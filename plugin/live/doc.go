// Package live keeps the plugins of a [admit.Snapshot] running: it loads a plugin when the
// first probe asks for it, replaces it when its file changes, withdraws it when its file
// goes, and unloads it when nothing has used it for a while.
//
// Read decide.go first: a pure function from what is known of a plugin, what the snapshot
// has of it and who uses it, to one [action]. manager.go has the [Manager], which keeps one
// record for each name and applies snapshots to them. record.go is that record: its state,
// and the lock that lets one goroutine at a time change it. execute.go carries out actions
// and shadow.go does so for versions that run beside another. prepare.go binds probes, and
// loads what they ask for. status.go is what the API and the metrics show.
//
// Two things use a plugin: probes, from Prepare to Release, and holds, which manifests have
// on the plugins that they name ([Manager.Hold]).
package live
