// Package history keeps what became of probes for weeks, in a database below the state directory: changes
// of their states, and the aggregates of their ticks by minute. [Store] is all of it.
//
// Read observe.go first: ticks and changes come in there, and never wait. writer.go collects them, and
// commit.go writes them, in commits of a bounded size, which only its goroutine makes; series.go has the
// states that it knows.
// windows.go has the buckets: everything belongs to a window of four hours, and is dropped with it. fold.go
// sorts the minutes of a window that has ended by series. replay.go reads the changes, oldest first;
// report.go makes reports of them, points.go reads minutes.
//
// db.go is the only way to bbolt, which believes what is in its file: what is damaged becomes an error
// there, verify.go reads a file before bbolt does, and load.go goes on with what is in it. Package record
// encodes the values, with checksums.
package history
