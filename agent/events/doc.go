// Package events keeps the newest events of an agent and logs them. Read log.go first. fold.go folds repeated
// warnings into one log line.
package events
