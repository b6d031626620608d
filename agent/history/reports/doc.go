// Package reports serves the history of an agent over HTTP: reports, as JSON or CSV, and the history of one
// probe. Read server.go first; csv.go escapes texts for spreadsheets.
package reports
