// Package history keeps what became of probes for weeks, in files below the state directory: changes of
// their states, and the aggregates of their ticks by minute. [Store] is all of it.
//
// Read observe.go first: ticks and changes come in there, and never wait. writer.go encodes them, and
// journal.go writes them to the newest file: one goroutine owns both. Every few hours block.go sorts a journal
// by series, into a block. files.go knows which files there are, and drops the oldest. replay.go reads the
// changes of all files, oldest first; report.go makes reports of them, and points.go reads minutes.
//
// Package record has the encoding of the files.
package history
