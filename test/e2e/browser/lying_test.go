package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestInvalidAnswers checks views with the answers of a server of another version. The page must ignore
// frames and answers of other types, and report missing paths.
func TestInvalidAnswers(t *testing.T) {
	frames := []string{
		`event: probe` + "\n" + `data: null`, `event: probe` + "\n" + `data: [1]`, `event: probe` + "\n" + `data: {"uid":`, `event: other` + "\n" + `data: {}`, `data: {}`, `: comment`,
		`event: probe` + "\n" + `data: {"uid":"u","pod":"p","namespace":5,"container":{},"kind":"x","handler":null,"state":"on fire","stateSince":"never","last":{"result":7,"text":{"a":1},"time":"soon","durationSeconds":"long"},"gate":3}`,
		`event: probe` + "\n" + `data: {"uid":"v","pod":"p","namespace":"n","container":"c","kind":"liveness","handler":"constructor","state":"toString","last":5}`,
		`event: probe` + "\n" + `data: {"uid":"w","pod":"p","namespace":"n","container":"c","kind":"liveness","handler":"http","state":"success","newField":{"a":[]}}`,
		`event: probe` + "\n" + `data: {"uid":"e","pod":"shop","namespace":"n","container":"endpoint","kind":"readiness","handler":"endpoint","state":"failure"}`,
		`event: pod` + "\n" + `data: {"uid":"u","name":"p","namespace":"n","phase":9,"containers":"none"}`,
		`event: pod` + "\n" + `data: {"uid":"x","name":"q","namespace":"n","containers":[{"name":5,"restarts":"many","state":"__proto__","lastEnd":"x"}]}`,
		`event: event` + "\n" + `data: {"metadata":{"name":"e"},"type":"Warning","message":["a"],"count":"x"}`,
	}
	answers := map[string]string{
		"agent": `{"checks":[{"name":{},"text":1}],"started":7}`, "plugins": `{"items":[null,{"name":3,"state":"__proto__","shadow":{"compared":null}}]}`,
		"certificates": `{"items":[null,{"names":"x","notAfter":7,"probes":[null,{"pod":{},"position":"x","seen":[]}],"probeCount":"many"},{"names":[{}],"subject":5,"sha256":{},"verification":"__proto__","probes":7}]}`,
		"targets":      `{"items":[null,{"name":1,"state":"constructor"}],"sources":[{}]}`, "report": `{"items":[{"uptime":"all","incidents":7}]}`,
		"endpoints": `{"items":[{"type":"endpoint","rule":7,"checks":[null,{"name":5,"state":"__proto__","weight":"x","decides":1,"stateSince":{}}],"missing":[{}],"push":5,"dependsOn":[null,{}]}]}`,
	}
	mux := http.NewServeMux()
	static := http.FileServer(http.Dir(root + "/agent/page/static"))
	mux.Handle("GET /page/", http.StripPrefix("/page", static))
	mux.Handle("GET /{$}", static)
	mux.HandleFunc("GET /api/v1/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, strings.Join(frames, "\n\n")+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/explain", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"probe":{"state":5,"spec":null},"summary":[1],"partOf":[null,{}],"ticks":[{"result":{},"events":"x","metrics":[{}],"details":"d"}],"agent":[{}]}`)
	})
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/history", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"since":7,"stepSeconds":"x","points":[null,{"time":"2026-01-02T00:00:00Z","success":"many","maxSeconds":"long"},{"time":"2020-01-02T00:00:00Z","failure":{}},{"time":5}],"transitions":[null,{"to":"__proto__","text":{}}]}`)
	})
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/durations", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"since":7,"until":{},"stepSeconds":-1e9,"ticks":1e99,"p50Seconds":{},"points":[null,{"time":"2026-01-02T00:00:00Z","p90Seconds":"long"},{"time":5,"p90Seconds":1e300},{"time":"2020-01-02T00:00:00Z","p90Seconds":0.1}],"phases":[null,{"name":{},"points":"x","ticks":[]},{"name":"__proto__","p99Seconds":1e300}]}`)
	})
	mux.HandleFunc("GET /api/v1/{list}", func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := answers[r.PathValue("list")]; ok {
			fmt.Fprint(w, answer)
			return
		}
		http.NotFound(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close) // runs after the tab is closed: Close waits for its stream
	b := open(t, server.URL+"/", desktop)
	b.wait(`proberCounts.success === 1 && proberCounts.unknown === 2`)
	for _, v := range []struct{ hash, ready string }{
		{"#/", `document.querySelector(".tiles")`}, {"#/wall", `document.querySelector(".tiles")`},
		{"#/probes", `document.querySelectorAll(".space a.open[href]").length === 4`}, {"#/pods", `document.querySelectorAll(".space a.open[href]").length === 2`},
		{"#/pod/n/q", `document.querySelector("h1").innerText === "n/q"`}, {"#/targets", `document.querySelector(".space a.open[href]")`},
		{"#/certificates", `document.querySelector(".certificate")`}, {"#/plugins", `document.querySelector(".card")`}, {"#/events", `document.querySelector(".space a.open[href]")`},
		{"#/availability", `document.querySelector(".grid.availability .space .line")`}, {"#/probe/n/p/c/liveness", `document.querySelector(".ticks details") && document.querySelector(".changes li")`},
		{"#/probe/n/p/c/liveness?since=7d&with=n%2Fp%2Fc%2Freadiness", `document.querySelector(".percentiles tr") && document.querySelector(".compared tr")`},
		{"#/probe/n/shop/endpoint/readiness", `document.querySelectorAll(".checks li").length === 2`},
	} {
		b.eval(fmt.Sprintf(`(location.hash = %s, true)`, quote(v.hash)), new(bool))
		b.wait(v.ready)
		b.eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, new(bool))
		b.check()
	}
}
