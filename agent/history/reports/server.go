package reports

import (
	"bufio"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/probe"
)

const (
	partBytes = 32 << 10         // of a response, in one write
	patience  = 10 * time.Second // limit of the time for a part
)

// Server serves the history.
type Server struct {
	// Store has the history; nil: the agent keeps none.
	Store *history.Store
	// Target returns what a probe probes now, "" if there is no such probe; required.
	Target func(namespace, pod, container, kind string) string
}

// hasHistory reports whether there is a history, and responds with 404 if not.
func (s *Server) hasHistory(w http.ResponseWriter) bool {
	if s.Store == nil {
		reply.Fail(w, http.StatusNotFound, "the agent keeps no history: --state-dir is not set")
	}
	return s.Store != nil
}

// Report responds to GET /api/v1/report.
func (s *Server) Report(w http.ResponseWriter, r *http.Request) {
	if !s.hasHistory(w) {
		return
	}
	q, err := parseReport(r, time.Now())
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	out := bufio.NewWriterSize(partWriter{w}, partBytes)
	var form form = &jsonForm{jsonList{out: out}}
	contentType := "application/json"
	if q.csv {
		form, contentType = newCSV(out, q.perIncident), "text/csv; charset=utf-8; header=present"
	}
	begun := false
	err = s.Store.Report(r.Context(), &q.Query, func(p *history.Page) error {
		begun = true
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "no-store")
		if q.csv {
			w.Header().Set("Content-Disposition", `attachment; filename="prober-report.csv"`)
		}
		return form.begin(p)
	}, func(i *api.ReportItem) error {
		i.Target = s.Target(i.Namespace, i.Pod, i.Container, i.Kind)
		return form.item(i)
	})
	finish(w, r, out, begun, form.end, err)
}

// finish ends a response in parts, after err. An error before its begin is the response.
func finish(w http.ResponseWriter, r *http.Request, out *bufio.Writer, begun bool, end func() error, err error) {
	switch {
	case err == nil:
		if end() == nil {
			_ = out.Flush() // an error means that the reader has left
		}
	case !begun:
		if r.Context().Err() == nil {
			reply.Fail(w, http.StatusInternalServerError, "the history cannot be read: %v", err)
		}
	default:
		panic(http.ErrAbortHandler) // a truncated response must not look complete
	}
}

// Changes responds to GET /api/v1/changes.
func (s *Server) Changes(w http.ResponseWriter, r *http.Request) {
	if !s.hasHistory(w) {
		return
	}
	q, err := parseChanges(r, time.Now())
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	out := bufio.NewWriterSize(partWriter{w}, partBytes)
	list, begun := jsonList{out: out}, false
	err = s.Store.Changes(r.Context(), q, func(since time.Time) error {
		begun = true
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		return list.begin(&api.StateChanges{Since: since.UTC(), Until: q.Until.UTC()})
	}, func(c *api.StateChange) error { return list.item(c) })
	finish(w, r, out, begun, list.end, err)
}

// Probe responds to GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/history.
func (s *Server) Probe(w http.ResponseWriter, r *http.Request) {
	s.ofProbe(w, r, func(key history.Key, since, until time.Time) (any, bool, error) {
		h, ok, err := s.Store.Probe(r.Context(), key, since, until)
		h.Target = s.targetOf(&key)
		return h, ok, err
	})
}

// Durations responds to GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/durations.
func (s *Server) Durations(w http.ResponseWriter, r *http.Request) {
	s.ofProbe(w, r, func(key history.Key, since, until time.Time) (any, bool, error) {
		d, ok, err := s.Store.Durations(r.Context(), key, since, until)
		d.Target = s.targetOf(&key)
		return d, ok, err
	})
}

func (s *Server) targetOf(k *history.Key) string {
	return s.Target(k.Namespace, k.Pod, k.Container, k.Kind.String())
}

// ofProbe responds with what read returns of a probe; ok is false if there was no such probe.
func (s *Server) ofProbe(w http.ResponseWriter, r *http.Request, read func(key history.Key, since, until time.Time) (answer any, ok bool, err error)) {
	kind, err := probe.ParseKind(r.PathValue("kind"))
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	if !s.hasHistory(w) {
		return
	}
	values, err := single(r.URL.Query(), "since", "until")
	var since, until time.Time
	if err == nil {
		since, until, err = span(values, "24h", time.Now())
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	key := history.Key{Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"), Container: r.PathValue("container"), Kind: kind}
	answer, ok, err := read(key, since, until)
	switch {
	case r.Context().Err() != nil:
	case err != nil:
		reply.Fail(w, http.StatusInternalServerError, "the history cannot be read: %v", err)
	case !ok:
		if oldest := s.Store.Oldest(); since.Before(oldest) {
			since = oldest
		}
		reply.Fail(w, http.StatusNotFound, "container %q of pod %s/%s had no %s probe since %s",
			key.Container, key.Namespace, key.Pod, kind, since.UTC().Format(time.RFC3339))
	default:
		reply.JSON(w, answer)
	}
}

// partWriter writes a response in parts. The client must take each within [patience].
type partWriter struct{ http.ResponseWriter }

// Write writes a part. It yields the processor afterwards, so that ticks that are due run first.
func (p partWriter) Write(part []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(patience)) // on an error the server's limit stays
	n, err := p.ResponseWriter.Write(part)
	runtime.Gosched()
	return n, err
}

// form writes a report, item by item.
type form interface {
	begin(*history.Page) error
	item(*api.ReportItem) error
	end() error
}

// jsonForm writes an [api.Report].
type jsonForm struct{ jsonList }

func (f *jsonForm) begin(p *history.Page) error {
	head := api.Report{Since: p.Since.UTC(), Until: p.Until.UTC()}
	if p.Last != nil {
		head.Metadata = api.ListMeta{Continue: continuation(p.Last), RemainingItemCount: new(int64(p.Remaining))}
	}
	return f.jsonList.begin(&head)
}

func (f *jsonForm) item(i *api.ReportItem) error { return f.jsonList.item(i) }

// jsonList writes a JSON object whose last field is a list, item by item.
type jsonList struct {
	out   *bufio.Writer
	items int
}

// begin writes the object head, whose list is nil.
func (l *jsonList) begin(head any) error {
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	_, err = l.out.WriteString(strings.TrimSuffix(string(text), "null}") + "[")
	return err
}

func (l *jsonList) item(i any) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	if l.items++; l.items > 1 {
		_ = l.out.WriteByte(',') // the next write returns the error
	}
	_, err = l.out.Write(text)
	return err
}

func (l *jsonList) end() error {
	_, err := l.out.WriteString("]}\n")
	return err
}
