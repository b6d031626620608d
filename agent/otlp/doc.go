// Package otlp sends metrics and traces to a collector, by OpenTelemetry's protocol over HTTP.
//
// Read [Exporter] first; client.go sends a request, metrics.go reads the families of /metrics, convert.go
// makes points of them, spans.go makes spans of ticks, and queue.go keeps those until they are sent.
package otlp
