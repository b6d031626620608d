// Package otlp sends metrics and traces to a collector over OTLP/HTTP, OpenTelemetry's protocol.
//
// Read [Exporter] first. client.go sends requests, metrics.go reads the families of /metrics, convert.go
// converts them to points, spans.go converts ticks to spans, and queue.go holds spans until they are sent.
package otlp
