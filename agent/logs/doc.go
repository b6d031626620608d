// Package logs writes the log of an agent. Read writer.go first: a writer that never blocks.
// explain.go logs why probes fail.
package logs
