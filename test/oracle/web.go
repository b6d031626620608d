package oracle

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
)

// web answers the HTTP probes of all runs. It stands outside of the bubbles, on a
// real socket: fake time waits for it. A run's probes name the run in their path.
type web struct {
	server *httptest.Server
	port   int

	mu   sync.Mutex
	runs []*runner
}

func newWeb() *web {
	w := new(web)
	w.server = httptest.NewServer(w)
	w.port = w.server.Listener.Addr().(*net.TCPAddr).Port
	return w
}

// enter makes r known and returns the path under which its probes ask.
func (w *web) enter(r *runner) (prefix string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, r)
	return fmt.Sprintf("/%d", len(w.runs)-1)
}

// leave forgets the run of a prefix.
func (w *web) leave(prefix string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[mustAtoi(prefix[1:])] = nil
}

// ServeHTTP answers /run/pod/container/kind as the script says. The body counts the
// attempts, so that events tell of those before them.
func (w *web) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	path := strings.SplitN(req.URL.Path[1:], "/", 2)
	w.mu.Lock()
	r := w.runs[mustAtoi(path[0])]
	w.mu.Unlock()
	if r == nil {
		rw.WriteHeader(http.StatusGone)
		return
	}
	n, step := r.step(strings.ReplaceAll(path[1], "/", " "))
	agent, _, _ := strings.Cut(req.UserAgent(), "/")
	req.Header.Set("User-Agent", agent) // a kubelet that is a library has no version
	body := fmt.Appendf(nil, "attempt %d: %s %s %s %v", n+1, req.Method, req.Host, req.Proto, req.Header)
	switch step.Do {
	case StepOK, StepTimeout: // here, nothing takes time
	case StepZero:
		rw.Header().Set("Location", "http://elsewhere.test/")
		rw.WriteHeader(http.StatusFound)
	case StepPanic:
		rw.WriteHeader(http.StatusMultipleChoices)
	case StepBig: // as a warning it would be cut at another place: our limit is the output's, the kubelet's the body's
		body = bytes.Repeat(body, 1000)
	case StepError: // the body ends before its length
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	default:
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = rw.Write(body) // a client that went away needs no answer
}

func mustAtoi(s string) int {
	i, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("not a number: %v", err))
	}
	return i
}
