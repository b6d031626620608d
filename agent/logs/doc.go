// Package logs is how an agent writes its log: writer.go never blocks, and explain.go logs why
// probes fail. Read either.
package logs
