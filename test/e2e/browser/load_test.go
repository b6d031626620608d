package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// BenchmarkTenThousandProbes measures the page with 10,000 probes with a period of 10 s: the time until they
// are shown, the memory of the tab, and how long the page was busy. Run it with -benchtime=1x.
func BenchmarkTenThousandProbes(b *testing.B) {
	const probes = 10_000
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "0") { // a tenth
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	var list []string
	for i := range probes {
		list = append(list, fmt.Sprintf("%s/service/%d", server.URL, i))
	}
	text, err := json.Marshal(list)
	if err != nil {
		b.Fatal(err)
	}
	config := "apiVersion: prober.dev/v1\nkind: AgentConfig\ntargets:\n- name: hosts\n  probe: {httpGet: {}, period: 10s}\n  static: " + string(text) + "\n"
	a := runAgent(b, prepare(b, map[string]string{"prober.yaml": config}), "--config", "prober.yaml", "--log-level", "error")
	time.Sleep(22 * time.Second) // time for two ticks of all probes

	for _, view := range []string{"summary", "full"} {
		readStream(b, a, view)
	}
	for b.Loop() {
		for _, view := range []string{"#/probes", "#/probes?sort=duration", "#/"} {
			measure(b, a, view, probes)
		}
	}
}

// readStream measures a stream without a page: the initial state, and then the changes of 10 s.
func readStream(b *testing.B, a *agent, view string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 12*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url("api/v1/stream?view="+view), nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	begun, first, rest, frames := time.Now(), 0, 0, 0
	for part := make([]byte, 1<<20); ; {
		n, err := response.Body.Read(part)
		if err != nil {
			break
		}
		if time.Since(begun) < 2*time.Second {
			first += n
			continue
		}
		rest += n
		frames += bytes.Count(part[:n], []byte("event: probe\n"))
	}
	fmt.Fprintf(os.Stderr, "view=%-8s %.1f MB at first, then %.0f kB/s of %.0f probes/s\n", view, float64(first)/1e6, float64(rest)/10/1000, float64(frames)/10)
}

// pageStats has the counters of the page.
type pageStats struct{ Frames, Batches, Bytes, Spent float64 }

func measure(b *testing.B, a *agent, view string, probes int) {
	begun := time.Now()
	t := open(b, a.url(view), desktop)
	t.wait(`document.querySelector("main > div")`)
	t.wait(fmt.Sprintf("proberCounts.success + proberCounts.warning + proberCounts.failure + proberCounts.unknown >= %d", probes))
	full := time.Since(begun)
	var paint float64
	t.eval(`performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1`, &paint)
	var before, after pageStats
	var frames int
	const window = 20 * time.Second
	t.eval(`(globalThis.drawn = 0, (function count() { drawn++; requestAnimationFrame(count); })(), longTasks.length = 0, proberStats)`, &before)
	start := time.Now()
	cpu := t.scriptTime()
	time.Sleep(window)
	spent := t.scriptTime() - cpu
	seconds := time.Since(start).Seconds()
	t.eval(`proberStats`, &after)
	t.eval(`drawn`, &frames)
	var tasks []float64
	t.eval(`longTasks`, &tasks)
	longest := 0.0
	for _, d := range tasks {
		longest = max(longest, d)
	}
	var scroll float64
	if strings.Contains(view, "probes") {
		t.eval(`(async () => {
			const box = document.querySelector(".scroll"); let worst = 0, last = performance.now();
			for (let i = 0; i < 120; i++) { box.scrollTop += 2700; await new Promise(requestAnimationFrame); const now = performance.now(); worst = Math.max(worst, now - last); last = now; }
			return worst; })()`, &scroll)
	}
	var heap, nodes float64
	t.eval(`(gc(), gc(), performance.memory.usedJSHeapSize)`, &heap)
	t.eval(`document.querySelectorAll("*").length`, &nodes)
	fmt.Fprintf(os.Stderr, "%-24s first paint %.0f ms, all probes after %.0f ms, heap %.1f MB, %.0f elements, %.0f updates/s (%.0f kB/s) in %.1f batches/s, %.0f frames/s, script %.1f %% of a core, %d long tasks, the longest %.0f ms, slowest frame of scrolling %.0f ms\n",
		view, paint, full.Seconds()*1000, heap/(1<<20), nodes, (after.Frames-before.Frames)/seconds, (after.Bytes-before.Bytes)/seconds/1000, (after.Batches-before.Batches)/seconds,
		float64(frames)/seconds, 100*spent/seconds, len(tasks), longest, scroll)
	t.shot("load" + strings.NewReplacer("#", "", "/", "-", "?", "-", "=", "-").Replace(view))
	t.check()
	_ = chromedp.Cancel(t.ctx)
}

// scriptTime returns how many seconds the tab has spent in scripts so far.
func (b *tab) scriptTime() (seconds float64) {
	b.t.Helper()
	b.run(performance.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		metrics, err := performance.GetMetrics().Do(ctx)
		for _, m := range metrics {
			if m.Name == "TaskDuration" {
				seconds = m.Value
			}
		}
		return err
	}))
	return seconds
}
