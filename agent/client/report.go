package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/daeace23/prober/agent/api"
)

// ReportFilter selects the contents of a report; empty fields match everything.
type ReportFilter struct {
	Namespace, Pod, Container, Kind string
	// Since and Until are durations before now, such as "30d", or times in RFC 3339; "": 30 days, and now.
	Since, Until string
	Incidents    bool // list the incidents of each probe
}

func (f *ReportFilter) query() url.Values {
	query := url.Values{"incidents": {strconv.FormatBool(f.Incidents)}}
	for name, value := range map[string]string{
		"namespace": f.Namespace, "pod": f.Pod, "container": f.Container, "kind": f.Kind, "since": f.Since, "until": f.Until,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// Report returns the availability of probes. It has no timeout, as the agent reads its history.
func (c *Client) Report(ctx context.Context, f ReportFilter) (report api.Report, err error) {
	err = c.request(ctx, http.MethodGet, f.query(), &report, "api", "v1", "report")
	return report, err
}

// ReportCSV copies the report as CSV: a row for each probe or, with f.Incidents, for each incident.
func (c *Client) ReportCSV(ctx context.Context, f ReportFilter, to io.Writer) error {
	query := f.query()
	query.Set("format", "csv")
	res, err := c.send(ctx, http.MethodGet, query, "api", "v1", "report")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(to, res.Body); err != nil {
		return c.unanswered(ctx, err)
	}
	return nil
}
