// Package stream sends the changes of probes, pods and events to the clients of /api/v1/stream. As it
// observes all probes, it also finds pods by name (names.go).
//
// Read hub.go first: it marks changes, and costs nothing without readers. session.go encodes each changed
// object once per view. table.go has the newest version of every object, and reader.go sends a reader the
// versions that it has not received. summary.go has the smaller view.
package stream
