// Package blackbox answers the scrapes of blackbox_exporter: /probe?module=NAME&target=ADDRESS makes one
// attempt, and responds with its metrics.
//
// Read [Load] first: it reads blackbox_exporter's own file. module.go has the fields of a module,
// action.go the handler and the config that a module becomes, target.go the address that a scrape names,
// server.go the scrape itself, and output.go its metrics and its debug text.
package blackbox
