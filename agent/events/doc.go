// Package events keeps the newest events of an agent, and logs them: fold.go folds the lines
// of warnings that come again and again. Read log.go first.
package events
