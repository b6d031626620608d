// Package stream sends the changes of probes, pods and events to the readers of /api/v1/stream.
// As it observes all probes, it also finds pods by name (names.go).
// Read hub.go first: what marks a change, and costs nothing without readers. session.go encodes
// each changed object once for a view, table.go has the newest version of every object, and reader.go sends
// to one reader what it has not received. summary.go has the smaller view.
package stream
