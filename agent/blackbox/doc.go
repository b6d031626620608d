// Package blackbox serves scrapes as blackbox_exporter does: /probe?module=NAME&target=ADDRESS makes one
// attempt, and responds with its metrics.
//
// Read [Load] first: it reads a file of blackbox_exporter. module.go has the fields of a module, action.go
// converts a module to a handler and its config, target.go parses the target of a scrape, server.go serves
// it, and output.go has its metrics and its debug text.
package blackbox
