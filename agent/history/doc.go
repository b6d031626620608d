// Package history stores the history of probes for weeks in a database below the state directory: the changes
// of their states, and the aggregates of their ticks by minute. [Store] is its entry point.
//
// Read observe.go first: it takes ticks and changes, and never blocks. writer.go collects them, and commit.go
// writes them in commits of bounded size. Only the writer's goroutine commits. series.go tracks the states of
// all series. windows.go defines the buckets: each record belongs to a window of four hours, and is dropped
// with it. fold.go sorts the minutes of a closed window by series. replay.go reads the changes, oldest first;
// report.go builds reports from them, and points.go reads minutes.
//
// db.go is the only access to bbolt, which trusts its file: it turns the effects of damage into errors.
// verify.go checks a file before bbolt opens it, and load.go resumes from its contents. Package record
// encodes the values, with checksums.
package history
