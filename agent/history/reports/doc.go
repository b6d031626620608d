// Package reports responds to HTTP requests for the history of an agent: reports, as JSON or CSV, and the
// history of one probe. Read server.go first; csv.go is safe for spreadsheets.
package reports
