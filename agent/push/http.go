package push

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/probe"
)

const (
	maxMessage = 10 << 10  // bytes of a message that are read
	maxLines   = 512 << 10 // bytes of a request with lines
	maxGuessed = 64        // bytes of an unknown name that is compared with the known ones
	// maxSenders is the limit of requests with one token at a time. Slow senders of one push must leave room
	// for the other pushes, which may have the same address behind a proxy.
	maxSenders = 8
)

// report is one report of a request.
type report struct {
	started bool
	outcome probe.Outcome
}

// ServeToken serves /push/TOKEN and /push/TOKEN/WHAT: a report of whoever knows the token. WHAT is start,
// fail, log or an exit code, as at healthchecks.io; the parameters status and msg are as at Uptime Kuma.
func (p *Pushes) ServeToken(w http.ResponseWriter, r *http.Request) {
	name, ok := (*p.tokens.Load())[sha256.Sum256([]byte(r.PathValue("token")))]
	if !ok {
		reply.Fail(w, http.StatusNotFound, "no push has this token")
		return
	}
	if !p.enter(name) {
		w.Header().Set("Retry-After", "1")
		reply.Fail(w, http.StatusServiceUnavailable, "push %s: %d requests are under way; try again later", name, maxSenders)
		return
	}
	defer p.leave(name)
	rep, err := readReport(r)
	if err == nil {
		err = rep.apply(r.PathValue("what"))
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	if r.PathValue("what") != "log" && !p.accept(w, name, &rep) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok\n")
}

// enter reports whether a push may have one more request, until it calls leave.
func (p *Pushes) enter(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.senders[name] == maxSenders {
		return false
	}
	p.senders[name]++
	return true
}

func (p *Pushes) leave(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.senders[name]--; p.senders[name] == 0 {
		delete(p.senders, name)
	}
}

// apply applies the last part of a path.
func (rep *report) apply(what string) error {
	switch what {
	case "", "log":
		return nil
	case "start":
		rep.started = true
		return nil
	case "fail":
		rep.outcome.Result = probe.Failure
		return nil
	}
	code, err := strconv.ParseUint(what, 10, 8)
	if err != nil {
		return fmt.Errorf("%.20q must be start, fail, log or an exit code from 0 to 255", what)
	}
	if code != 0 {
		rep.outcome.Result = probe.Failure
		rep.outcome.Output = cmp.Or(rep.outcome.Output, "exit status "+what)
	}
	return nil
}

// ServeName serves POST /api/v1/push/NAME.
func (p *Pushes) ServeName(w http.ResponseWriter, r *http.Request) {
	rep, err := readReport(r)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	name := r.PathValue("name")
	if p.accept(w, name, &rep) {
		reply.JSON(w, api.PushReply{Name: name})
	}
}

// accept stores a report, or responds with an error.
func (p *Pushes) accept(w http.ResponseWriter, name string, rep *report) bool {
	var err error
	if rep.started {
		err = p.Started(name)
	} else {
		err = p.Report(name, rep.outcome)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		reply.Fail(w, http.StatusNotFound, "%v", p.unknown(name))
	case err != nil:
		reply.Fail(w, http.StatusServiceUnavailable, "push %s: the report cannot be stored; the agent's log says why", name)
	}
	return err == nil
}

// unknown returns the error about a name that no push has, with a guess which one was meant.
func (p *Pushes) unknown(name string) error {
	guess := ""
	if len(name) <= maxGuessed {
		guess = nearest.Name(name, slices.Sorted(slices.Values(p.set.Keys())))
	}
	if guess != "" {
		guess = fmt.Sprintf(" (did you mean %q?)", guess)
	}
	return fmt.Errorf("push %.80q: %w%s", name, ErrUnknown, guess)
}

// parameters are the parameters of a report: ours, and those of Uptime Kuma and healthchecks.io.
var parameters = []string{"message", "msg", "ping", "result", "rid", "started", "status"}

// readBody returns the parameters and the message of a request. A body is the message, or the parameters if
// it is a form that begins with one, as curl -d status=down sends it.
func readBody(r *http.Request) (raw, message string, err error) {
	raw = r.URL.RawQuery
	if r.Method != http.MethodPost {
		return raw, "", nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxMessage))
	if err != nil {
		return "", "", errors.New("the body cannot be read")
	}
	message = strings.TrimSpace(string(body))
	name, _, isPair := strings.Cut(message, "=")
	if raw == "" && isPair && slices.Contains(parameters, name) && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return message, "", nil
	}
	return raw, message, nil
}

// readReport reads the parameters of a request. Its body is the message if no parameter is.
func readReport(r *http.Request) (rep report, err error) {
	rep.outcome.Result = probe.Success
	raw, message, err := readBody(r)
	if err != nil {
		return rep, err
	}
	query, err := readQuery(raw)
	if err != nil {
		return rep, err
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query.Get(name)
		switch name {
		case "result":
			if rep.outcome.Result, err = parseResult(value); err != nil {
				return rep, err
			}
		case "status":
			switch value {
			case "up":
			case "down":
				rep.outcome.Result = probe.Failure
			default:
				return rep, fmt.Errorf("status=%.20q must be up or down", value)
			}
		case "started":
			if rep.started, err = strconv.ParseBool(value); err != nil {
				return rep, fmt.Errorf("started=%.20q must be true or false", value)
			}
		case "message", "msg":
			rep.outcome.Output = value
		case "ping", "rid": // of Uptime Kuma and healthchecks.io
		default:
			return rep, fmt.Errorf("unknown parameter %.20q: known: %s", name, strings.Join(parameters, ", "))
		}
	}
	if rep.started && (query.Has("result") || query.Has("status")) {
		return rep, errors.New("a run that has started has no result yet: started must not be set together with result or status")
	}
	rep.outcome.Output = strings.ToValidUTF8(cmp.Or(rep.outcome.Output, message), "\uFFFD")
	return rep, nil
}

// readQuery parses a query. It refuses what [url.URL.Query] skips: a skipped failure would be a success.
func readQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, errors.New("the query must be NAME=VALUE&NAME=VALUE, with % of a value as %25, & as %26 and ; as %3B")
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, fmt.Errorf("%.20q must not be set twice", name)
		}
	}
	for _, both := range [][2]string{{"result", "status"}, {"message", "msg"}} {
		if query.Has(both[0]) && query.Has(both[1]) {
			return nil, fmt.Errorf("%s and %s must not be set together", both[0], both[1])
		}
	}
	return query, nil
}

func parseResult(word string) (probe.Result, error) {
	for _, r := range []probe.Result{probe.Success, probe.Warning, probe.Failure, probe.Unknown} {
		if r.String() == word {
			return r, nil
		}
	}
	return 0, fmt.Errorf("result=%.20q must be success, warning, failure or unknown", word)
}

// codes are the results of the exit codes of Nagios plugins.
var codes = map[string]probe.Result{"0": probe.Success, "1": probe.Warning, "2": probe.Failure, "3": probe.Unknown}

// ServeLines serves POST /api/v1/push: lines in the format of send_nsca. It reads all lines before it stores
// the first report.
func (p *Pushes) ServeLines(w http.ResponseWriter, r *http.Request) {
	type named struct {
		name string
		report
	}
	var all []named
	lines := bufio.NewScanner(http.MaxBytesReader(w, r.Body, maxLines))
	lines.Buffer(nil, maxLines)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		name, outcome, err := parseLine(lines.Text())
		if err == nil && !p.exists(name) {
			err = p.unknown(name)
		}
		if err != nil {
			reply.Fail(w, http.StatusBadRequest, "line %d: %v", n, err)
			return
		}
		all = append(all, named{name, report{outcome: outcome}})
	}
	if err := lines.Err(); err != nil {
		reply.Fail(w, http.StatusRequestEntityTooLarge, "the lines must have at most %d bytes together", maxLines)
		return
	}
	for i := range all {
		if !p.accept(w, all[i].name, &all[i].report) {
			return
		}
	}
	reply.JSON(w, api.PushReply{Reports: len(all)})
}

func (p *Pushes) exists(name string) bool {
	_, ok := p.set.Status(name)
	return ok
}

// parseLine parses [HOST<TAB>]NAME<TAB>CODE<TAB>OUTPUT.
func parseLine(line string) (name string, o probe.Outcome, err error) {
	fields := strings.SplitN(strings.TrimRight(line, "\r"), "\t", 4)
	if len(fields) == 4 {
		if _, ok := codes[fields[1]]; !ok {
			fields = fields[1:] // without the host
		} else {
			fields = []string{fields[0], fields[1], fields[2] + "\t" + fields[3]}
		}
	}
	if len(fields) != 3 {
		return "", o, errors.New("must be [HOST<TAB>]NAME<TAB>CODE<TAB>OUTPUT")
	}
	result, ok := codes[fields[1]]
	if !ok {
		return "", o, fmt.Errorf("the code %.20q must be from 0 to 3", fields[1])
	}
	return fields[0], probe.Outcome{Result: result, Output: strings.ToValidUTF8(fields[2], "\uFFFD")}, nil
}
