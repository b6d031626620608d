package metrics

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/metrics/internal/exposition"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// HandlerConfig configures [Metrics.Handler].
type HandlerConfig struct {
	// Rest has all metrics without series for each probe: those that [Metrics.RegisterShared] registers,
	// and the program's own. A family with the name of one of prober's families for each probe is left out.
	// Nil means that there are no others.
	Rest prometheus.Gatherer
	// MaxInFlight is the largest number of concurrent requests. Further requests are answered with 503
	// Service Unavailable. Zero means no limit.
	MaxInFlight int
}

// writeTimeout limits the time of a response if the server sets no limit.
const writeTimeout = 30 * time.Second

// Handler returns a handler of scrapes. Its responses equal promhttp's for a registry with all metrics, in
// the text format, OpenMetrics and protobuf, with two exceptions: the series of a probe are adjacent, and
// in protobuf a large family has several messages.
//
// It streams the series of probes from their counters, in chunks of about 64 KiB, and ticks run in between.
// The memory of a request does not depend on the number of probes, and a request holds no lock while it
// waits for its reader. A request ends after 30 s, or at the write timeout of the server. The query
// parameter name[] selects families.
func (m *Metrics) Handler(cfg HandlerConfig) http.Handler {
	h := &handler{metrics: m, cfg: cfg}
	if cfg.Rest == nil {
		h.cfg.Rest = prometheus.Gatherers{}
	}
	if cfg.MaxInFlight > 0 {
		h.slots = make(chan struct{}, cfg.MaxInFlight)
	}
	return h
}

type handler struct {
	metrics *Metrics
	cfg     HandlerConfig
	slots   chan struct{} // nil without a limit
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.slots != nil {
		select {
		case h.slots <- struct{}{}:
			defer func() { <-h.slots }()
		default:
			http.Error(w, fmt.Sprintf("Limit of concurrent requests reached (%d), try again later.", h.cfg.MaxInFlight), http.StatusServiceUnavailable)
			return
		}
	}
	rest, err := h.cfg.Rest.Gather()
	if err != nil {
		http.Error(w, "An error has occurred while serving metrics:\n\n"+err.Error(), http.StatusInternalServerError)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, formats...)
	w.Header().Add("Vary", "Accept")
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", string(format))
	compressed := acceptsGzip(r.Header)
	if compressed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if r.Method == http.MethodHead {
		return
	}
	limitWrites(w, r)
	var body io.Writer = w
	if compressed {
		zip := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(zip)
		zip.Reset(w)
		defer zip.Close() // an error means that the reader is gone
		body = zip
	}
	only := r.URL.Query()["name[]"]
	h.metrics.write(body, format, rest, func(name string) bool { return only == nil || slices.Contains(only, name) })
}

// write writes the selected families, each once, sorted by name. It stops at the first error of w.
func (m *Metrics) write(w io.Writer, format expfmt.Format, rest []*dto.MetricFamily, selected func(name string) bool) {
	e := exposition.New(w, encodings[format.FormatType()])
	encoder := expfmt.NewEncoder(e, format)
	ours := probeFamilies
	for _, f := range rest {
		name := f.GetName()
		for len(ours) > 0 && ours[0].Name < name {
			ours[0].writeTo(e, m, selected)
			ours = ours[1:]
		}
		if selected(name) && !isProbeFamily(name) && encoder.Encode(f) != nil {
			return
		}
	}
	for _, f := range ours {
		f.writeTo(e, m, selected)
	}
	if closer, ok := encoder.(expfmt.Closer); ok && closer.Close() != nil {
		return
	}
	_ = e.Flush() // the reader is gone
}

// formats lists the formats that a scrape may request, the preferred one first.
var formats = []expfmt.Format{
	expfmt.NewFormat(expfmt.TypeOpenMetrics),
	expfmt.OpenMetricsType + "; version=" + expfmt.OpenMetricsVersion_0_0_1 + "; charset=utf-8",
	expfmt.NewFormat(expfmt.TypeTextPlain),
	expfmt.NewFormat(expfmt.TypeProtoDelim),
}

var encodings = map[expfmt.FormatType]exposition.Encoding{expfmt.TypeOpenMetrics: exposition.OpenMetrics, expfmt.TypeProtoDelim: exposition.Protobuf}

// limitWrites sets a write deadline on the response, unless the server has a write timeout.
func limitWrites(w http.ResponseWriter, r *http.Request) {
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // w may not support deadlines
}

// gzipWriters compress at the fastest level: the default level takes longer than the rest of a scrape.
var gzipWriters = sync.Pool{New: func() any {
	zip, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return zip
}}

// acceptsGzip reports whether a client prefers gzip to no encoding.
func acceptsGzip(header http.Header) bool {
	gzip, identity := -1.0, -1.0
	for _, value := range header.Values("Accept-Encoding") {
		for spec := range strings.SplitSeq(value, ",") {
			coding, weight, weighted := strings.Cut(spec, ";")
			q := 1.0
			if weighted {
				var err error
				if q, err = strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64); err != nil {
					break
				}
			}
			switch strings.TrimSpace(coding) {
			case "gzip":
				gzip = max(gzip, q)
			case "identity":
				identity = max(identity, q)
			case "*":
				gzip, identity = max(gzip, q), max(identity, q)
			}
		}
	}
	return gzip > 0 && gzip > identity
}
