// Package events keeps the newest events of an agent and logs them. Read log.go first. fold.go
// replaces the lines of repeated warnings by one.
package events
