package reports_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/history/reports"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// evil holds texts of a target that a spreadsheet would take for formulas.
var evil = []string{"=cmd|' /C calc'!A0", "+1", "-1+2", "@SUM(1)", "\t=1", "＝1", "a,b\"c\nd\x1b[31m\xff\u202e", "fine"}

// tame holds the same texts as CSV must have them.
var tame = []string{"'=cmd|' /C calc'!A0", "'+1", "'-1+2", "'@SUM(1)", "'=1", "'＝1", "a,b\"c d [31m\ufffd\ufffd", "fine"}

// served calls f in a bubble with a server. Each of its eight probes has failed for a minute.
func served(t *testing.T, f func(get func(path string, header ...string) *httptest.ResponseRecorder)) {
	servedFrom(t, t.TempDir(), f)
}

func servedFrom(t *testing.T, dir string, f func(get func(path string, header ...string) *httptest.ResponseRecorder)) {
	synctest.Test(t, func(t *testing.T) {
		store := history.New(history.Config{StateDir: dir})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { store.Run(ctx) })
		defer running.Wait()
		defer cancel()
		for i, text := range evil {
			info := worker.Info{Subject: results.Subject{Namespace: fmt.Sprint("ns-", i/4), Pod: fmt.Sprint("pod-", i), PodUID: fmt.Sprint(i), Container: "web"}, Kind: probe.Liveness, Handler: "http"}
			store.Observe(info)
			for _, to := range []states.State{states.Success, states.Failure, states.Success} {
				store.Changed(&states.Change{Info: info, To: to, Time: time.Now(), Cause: states.Cause{Reason: "dns", Text: text}})
				time.Sleep(time.Minute)
			}
		}
		s := &reports.Server{Store: store, Target: func(_, pod, _, kind string) string { return "@" + pod + ":" + kind }}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /report", s.Report)
		mux.HandleFunc("GET /probes/{namespace}/{pod}/{container}/{kind}/history", s.Probe)
		f(func(path string, header ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", path, nil)
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			return w
		})
	})
}

func TestReportAsJSON(t *testing.T) {
	served(t, func(get func(string, ...string) *httptest.ResponseRecorder) {
		decode := func(path string) (report api.Report) {
			w := get(path)
			if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("%s: %d %v %s", path, w.Code, err, w.Body)
			}
			return report
		}
		all := decode("/report")
		if len(all.Items) != len(evil) || !all.Since.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) || all.Metadata != (api.ListMeta{}) {
			t.Errorf("%+v", all)
		}
		if i := all.Items[7]; i.Pod != "pod-7" || i.Target != "@pod-7:liveness" || len(i.Incidents) != 1 || i.Incidents[0].DurationSeconds != 60 || i.Incidents[0].Text != "fine" || i.Incidents[0].Reason != "dns" {
			t.Errorf("%+v", i)
		}
		if some := decode("/report?namespace=ns-1&pod=pod-5&container=web&kind=liveness&incidents=false"); len(some.Items) != 1 || some.Items[0].IncidentCount != 1 || len(some.Items[0].Incidents) != 0 {
			t.Errorf("%+v", some)
		}
		if none := decode("/report?kind=startup"); none.Items == nil || len(none.Items) != 0 {
			t.Errorf("%+v", none)
		}
		var paged []api.ReportItem
		for query := "/report?limit=3"; query != ""; {
			page := decode(query)
			paged = append(paged, page.Items...)
			query = ""
			if page.Metadata.Continue != "" {
				if int(*page.Metadata.RemainingItemCount) != len(evil)-len(paged) {
					t.Errorf("%d remain", *page.Metadata.RemainingItemCount)
				}
				query = "/report?limit=3&continue=" + page.Metadata.Continue
			}
		}
		if diff := cmp.Diff(all.Items, paged); diff != "" {
			t.Error(diff)
		}
		half := decode("/report?since=2000-01-01T00:01:30Z&until=2000-01-01T00:02:30Z").Items[0]
		if half.Seconds != (api.StateSeconds{Failure: 30, Success: 30}) || half.IncidentCount != 1 {
			t.Errorf("%+v", half)
		}
	})
}

func TestReportAsCSV(t *testing.T) {
	served(t, func(get func(string, ...string) *httptest.ResponseRecorder) {
		for path, columns := range map[string]int{"/report?format=csv": 15, "/report?format=csv&incidents=true": 11} {
			w := get(path)
			if got := w.Header().Get("Content-Type"); got != "text/csv; charset=utf-8; header=present" {
				t.Errorf("content type %q", got)
			}
			rows, err := csv.NewReader(w.Body).ReadAll()
			if err != nil || len(rows) != 1+len(evil) || len(rows[0]) != columns {
				t.Fatalf("%v %q", err, rows)
			}
			for i, row := range rows[1:] {
				for k, cell := range row {
					if strings.IndexAny(cell, "=+-@\t\r＝＋－＠") == 0 {
						t.Errorf("%s: %q is a formula", rows[0][k], cell)
					}
				}
				at := slices.Index(rows[0], "target")
				if want := fmt.Sprintf("'@pod-%d:liveness", i); at != min(columns-1, 13) || row[at] != want {
					t.Errorf("%s: the column %d is %q, want %q", path, at, row[at], want)
				}
				if columns == 15 && (rows[0][14] != "maintenance_seconds" || row[14] != "0") {
					t.Errorf("the last column is %s: %q", rows[0][14], row[14])
				}
				if columns == 11 && row[9] != tame[i] {
					t.Errorf("text %q, want %q", row[9], tame[i])
				}
			}
		}
		if w := get("/report", "Accept", "text/csv, */*;q=0.1"); !strings.HasPrefix(w.Body.String(), "namespace,pod,container,kind,handler,uptime,") {
			t.Errorf("%s", w.Body)
		}
		const last = "ns-1,pod-7,web,liveness,http,0.6666666666666666,120,0,60,0,1,60,60,'@pod-7:liveness,0\n"
		if w := get("/report?format=csv&pod=pod-7"); !strings.HasSuffix(w.Body.String(), last) {
			t.Errorf("%s", w.Body)
		}
	})
}

func TestHistoryOfOneProbe(t *testing.T) {
	served(t, func(get func(string, ...string) *httptest.ResponseRecorder) {
		var h api.ProbeHistory
		w := get("/probes/ns-0/pod-0/web/liveness/history?since=2000-01-01")
		if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || len(h.Transitions) != 4 || h.StepSeconds != 60 || h.Target != "@pod-0:liveness" {
			t.Errorf("%v: %s", err, w.Body)
		}
	})
}

func TestWrongParameters(t *testing.T) {
	const one = "/probes/ns-0/pod-0/web/liveness/history"
	served(t, func(get func(string, ...string) *httptest.ResponseRecorder) {
		for path, want := range map[string]string{
			"/report?x=1":                        `400 unknown parameter "x"; known: container, continue, format, incidents, kind, limit, namespace, parts, pod, since, until`,
			"/report?pod=a&pod=b":                `400 parameter "pod" is set 2 times`,
			"/report?since=yesterday":            `400 since "yesterday" must be a duration such as 30d or 12h, or a time such as 2026-01-02T15:04:05Z`,
			"/report?until=1x":                   `400 until "1x" must be a duration such as 30d or 12h, or a time such as 2026-01-02T15:04:05Z`,
			"/report?since=1h&until=2h":          `400 since must be before until, and before now`,
			"/report?kind=x":                     `400 unknown kind "x"; known: liveness, readiness, startup`,
			"/report?limit=-1":                   `400 limit "-1" must be an integer, at least 0`,
			"/report?continue=x":                 `400 continue must be a metadata.continue of this list`,
			"/report?format=xml":                 `400 unknown format "xml"; known: csv, json`,
			"/report?incidents=1":                `400 incidents "1" must be true, false or newest`,
			"/report?parts=101":                  `400 parts "101" must be an integer from 1 to 100`,
			"/report?format=csv&limit=1":         `400 limit and continue need format=json`,
			one + "?limit=1":                     `400 unknown parameter "limit"; known: since, until`,
			one + "?since=x":                     `400 since "x" must be a duration such as 30d or 12h, or a time such as 2026-01-02T15:04:05Z`,
			strings.Replace(one, "-0", "-", 1):   `404 container "web" of pod ns-/pod-0 had no liveness probe since 2000-01-01T00:00:00Z`,
			strings.Replace(one, "live", "x", 1): `400 unknown kind "xness"; known: liveness, readiness, startup`,
		} {
			w := get(path)
			var s api.Status
			if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
				t.Fatalf("%s: %v %s", path, err, w.Body)
			}
			if got := fmt.Sprint(w.Code, " ", s.Message); got != want {
				t.Errorf("%s\ngot  %s\nwant %s", path, got, want)
			}
		}
	})
}

func TestHistoryThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	servedFrom(t, dir, func(get func(string, ...string) *httptest.ResponseRecorder) {
		f, err := os.OpenFile(filepath.Join(dir, "history", "history.db"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xff}, int(info.Size())-2*os.Getpagesize()), int64(2*os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/report", "/report?format=csv", "/probes/ns-0/pod-0/web/liveness/history"} {
			if w := get(path); w.Code != 500 || !strings.Contains(w.Body.String(), `"the history cannot be read: `) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}

func TestAgentWithoutHistory(t *testing.T) {
	s := &reports.Server{}
	w := httptest.NewRecorder()
	s.Report(w, httptest.NewRequest("GET", "/report", nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), `"the agent keeps no history: --state-dir is not set"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
