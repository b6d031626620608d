package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
)

// maxPoints limits the points of a request to some hundred KB. Only a single family may exceed it.
const maxPoints = 2000

// sendMetrics sends all metrics, in several requests if there are many. It gives up when the next interval
// begins.
func (e *Exporter) sendMetrics(ctx context.Context, ended <-chan struct{}, c *client) {
	ctx, cancel := context.WithTimeout(ctx, c.spec.Interval)
	defer cancel()
	var batch []*metricspb.Metric
	var unsent error // of a failed request, already reported
	points := 0
	flush := func() error {
		if points == 0 {
			return nil
		}
		unsent = e.sendBatch(ctx, ended, c, batch)
		batch, points = nil, 0
		return unsent
	}
	convert := converter{start: nanos(e.start), now: nanos(time.Now())}
	err := scrape(ctx, e.cfg.Metrics, func(f *dto.MetricFamily) error {
		metric, n := convert.family(f)
		batch, points = append(batch, metric), points+n
		if points < maxPoints {
			return nil
		}
		return flush()
	})
	switch {
	case err == nil:
		_ = flush()
	case unsent == nil:
		e.report(metricSignal, fmt.Errorf("collecting the metrics: %w", err))
	}
}

// sendBatch sends one request.
func (e *Exporter) sendBatch(ctx context.Context, ended <-chan struct{}, c *client, batch []*metricspb.Metric) error {
	request := &collectorpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: e.resource, ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: e.scope(), Metrics: batch}},
	}}}
	var answer collectorpb.ExportMetricsServiceResponse
	err := c.send(ctx, ended, "/v1/metrics", request, &answer, func(err error) { e.report(metricSignal, err) })
	if err == nil {
		e.report(metricSignal, rejected(answer.PartialSuccess.GetRejectedDataPoints(), answer.PartialSuccess.GetErrorMessage()))
	}
	return err
}

// scrape calls each with the families of a scrape in protobuf, until each returns an error. A large family
// arrives in several parts, so that only one of them is in memory.
func scrape(ctx context.Context, from http.Handler, each func(*dto.MetricFamily) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/metrics", http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	read, write := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w := &response{PipeWriter: write, header: make(http.Header), status: http.StatusOK}
		from.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			_ = write.CloseWithError(errors.New(http.StatusText(w.status)))
			return
		}
		_ = write.Close()
	}()
	defer func() {
		_ = read.Close()
		<-ended
	}()
	decoder := expfmt.NewDecoder(read, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		var f dto.MetricFamily
		err := decoder.Decode(&f)
		if err == nil {
			err = each(&f)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// response is the response writer of an in-process scrape.
type response struct {
	*io.PipeWriter
	header http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) { w.status = status }
