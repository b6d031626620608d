// Package history keeps what became of probes for weeks, in files below the state directory: changes of
// their states, and the aggregates of their ticks by minute. [Store] is all of it.
//
// Read observe.go first: ticks and changes come in there, and never wait. writer.go writes them: its
// goroutine owns the newest file, a journal. Every few hours block.go sorts the journal by series, into a
// block. files.go knows which files there are, and drops the oldest. replay.go reads the changes of all
// files, oldest first; report.go and timeline.go make reports of them, points.go reads minutes.
//
// Package record has the encoding of the files.
package history
