package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// bound is a plugin together with the config of one probe.
type bound struct {
	plugin *Handler
	config []byte // defaults filled in
	store  *store // read-only after the first attempt has begun
}

var (
	_ probe.Inheritor    = (*bound)(nil)
	_ probe.SecretKeeper = (*bound)(nil)
	_ probe.Releaser     = (*bound)(nil)
)

// KeepSecret implements [probe.SecretKeeper]: a process may tell of a config whenever it
// likes.
func (b *bound) KeepSecret(redact func(text string) string) {
	h := b.plugin
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.secret == nil {
		h.secret = make(map[*bound]func(string) string)
	}
	h.secret[b] = redact
}

// Release implements [probe.Releaser]. The process lives on, if only until the plugin is
// closed after its last probe: what it says is without the probe's secrets for a while yet.
func (b *bound) Release() {
	h := b.plugin
	h.mu.Lock()
	redact, ok := h.secret[b]
	h.mu.Unlock()
	if !ok {
		return
	}
	l := lateSecret{b.secretOf(redact), redact, time.Now().Add(h.cfg.DrainTimeout + lateFor)}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.secret, b)
	h.late = append(slices.DeleteFunc(h.lateLocked(), func(o lateSecret) bool { return o.of == l.of }), l)
}

// secretOf tells apart what probes keep secret: by their configs, and by what redact leaves of
// them, as they are written and as they are read.
func (b *bound) secretOf(redact func(text string) string) [sha256.Size]byte {
	var read any
	_ = json.Unmarshal(b.config, &read) // what a plugin takes is JSON
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q", b.config, redact(string(b.config)), redact(fmt.Sprint(read))))
}

// Inherit implements [probe.Inheritor]: what a probe keeps is its own, and no new
// version of the plugin loses it. An attempt of the old one may still add to it.
func (b *bound) Inherit(from probe.Handler) {
	if old, ok := from.(*bound); ok {
		b.store = old.store
	}
}

// call is one attempt. It belongs to the goroutine that makes it.
type call struct {
	ctx      context.Context
	plugin   *Handler
	req      *probe.Request
	question question
	logLines int
	logBytes int
	hits     [len(plugin.LimitNames)]bool
}

// Probe implements [probe.Handler].
func (b *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	out, err := b.attempt(ctx, req)
	if err == nil {
		return out, nil
	}
	p := b.plugin
	if p.manifest.ErrorPolicy == plugin.PolicyFailure && req.Attempt >= probe.MaxAttempts {
		switch reason := probe.ReasonOf(err); reason {
		case probe.ReasonTrap, probe.ReasonInstantiate:
			return probe.Outcome{Result: probe.Failure, Reason: reason, Output: probe.Cut(req.Redacted(err.Error()))}, nil
		}
	}
	return probe.Outcome{}, fmt.Errorf("plugin %q: %w", p.manifest.Name, err)
}

// attempt carries out one attempt.
func (b *bound) attempt(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	start := time.Now()
	if ctx.Err() != nil {
		return ended(ctx, &req, start)
	}
	c := &call{ctx: ctx, plugin: b.plugin, req: &req}
	if err := b.plugin.admit(c); err != nil {
		return probe.Outcome{}, err
	}
	defer b.plugin.leave(c)
	in, err := b.plugin.keeper.process(ctx, req.Attempt)
	if err != nil {
		return probe.Outcome{}, err
	}
	waited := time.Since(start)
	in.used.Store(true)
	c.traceStart(in, waited)
	c.question.begin(in, req.Trace != nil)
	verdict, err := c.ask(in, b)
	c.traceCall(in, verdict, err)
	if err == nil {
		return b.outcome(c, verdict)
	}
	deadline, limited := ctx.Deadline()
	switch {
	case ctx.Err() == context.Canceled:
		return probe.Outcome{}, ctx.Err()
	case !in.ready() || !limited || status.Code(err) != codes.DeadlineExceeded || time.Until(deadline) > skew:
		return probe.Outcome{}, in.fault(ctx, err, false)
	case waited > deadline.Sub(start)/2:
		return probe.Outcome{}, &skipped{errors.New("the process took most of the time to start")}
	case c.question.taken == 0:
		c.explain(in, nil)
		in.missed(b.plugin.cfg.StartTimeout)
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonTrap, Err: errors.New("the process does not take questions")}
	}
	out, err := ended(ctx, &req, start)
	c.explain(in, &out)
	return out, err
}

// skew is how much earlier than here a deadline may come in a process: it is handed over
// as the time that is left.
const skew = 20 * time.Millisecond

// ended is the answer of an attempt whose time is over.
func ended(ctx context.Context, req *probe.Request, start time.Time) (probe.Outcome, error) {
	if ctx.Err() == context.Canceled {
		return probe.Outcome{}, ctx.Err()
	}
	timeout := req.Spec.Timeout
	if timeout == 0 {
		timeout = time.Since(start).Round(time.Millisecond)
	}
	return probe.TimedOut(timeout), nil
}

// What an answer may have beyond any limit of lines: it is read to its verdict.
const (
	maxEvents    = 100_000 // messages
	maxLineBytes = 4 << 20 // in log lines
)

// ask puts the question and reads the answer up to its verdict.
func (c *call) ask(in *instance, b *bound) (*pluginpb.Verdict, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel() // of the stream
	question := &pluginpb.ProbeRequest{Request: c.requestDoc(b.config)}
	if c.plugin.keeps {
		question.Kv = &pluginpb.KV{Values: b.store.all()}
	}
	stream, err := in.rpc.Probe(ctx, question)
	if err != nil {
		return nil, err
	}
	if head, err := stream.Header(); err == nil && head != nil {
		c.question.taken = max(1, time.Since(c.question.put))
		in.missedAt.Store(0)
	}
	return c.read(stream)
}

func (c *call) read(stream grpc.ServerStreamingClient[pluginpb.ProbeEvent]) (*pluginpb.Verdict, error) {
	taken := 0
	for range maxEvents {
		event, err := stream.Recv()
		switch {
		case err == io.EOF:
			return nil, protocolError("the process ended its answer without a verdict")
		case err != nil:
			return nil, err
		}
		if v := event.GetVerdict(); v != nil {
			return v, nil
		}
		if line := event.GetLog(); line != nil {
			c.question.note(line.GetLine())
			c.log(line)
			if taken += len(line.GetLine()); taken > maxLineBytes {
				return nil, protocolError("more than %d bytes of log and no verdict", maxLineBytes)
			}
		}
	}
	return nil, protocolError("more than %d messages and no verdict", maxEvents)
}

// log hands on one line, while the limits of the run allow it.
func (c *call) log(l *pluginpb.LogLine) {
	limits := &c.plugin.limits
	room := limits.LogBytes - c.logBytes
	if c.logLines >= limits.LogLines || room <= 0 {
		c.hits[plugin.LimitLogLines] = c.hits[plugin.LimitLogLines] || room > 0
		c.hits[plugin.LimitLogBytes] = c.hits[plugin.LimitLogBytes] || room <= 0
		return
	}
	text := c.req.Redacted(l.GetLine()) // before it is cut: half a secret would not be found later
	text = strings.ToValidUTF8(text[:min(len(text), room)], "\uFFFD")
	c.logLines++
	c.logBytes += len(text)
	name := levelName(l.GetLevel())
	c.req.Trace.Emit(probe.TraceEvent{Type: probe.TraceLog, Name: name, Detail: text})
	c.plugin.cfg.Logger.DebugContext(c.ctx, text, "handler", c.plugin.manifest.Name, "from", name)
}

func levelName(level int32) string {
	names := [...]string{abi.LevelDebug: "debug", abi.LevelInfo: "info", abi.LevelWarn: "warn", abi.LevelError: "error"}
	return names[min(max(level, abi.LevelDebug), abi.LevelError)]
}

// outcome is what a verdict amounts to, held against the limits.
func (b *bound) outcome(c *call, v *pluginpb.Verdict) (probe.Outcome, error) {
	limits := &c.plugin.limits
	if len(v.GetResult()) > limits.Result {
		c.hits[plugin.LimitResult] = true
		return probe.Outcome{}, protocolError("a result of %d bytes; at most %d are allowed", len(v.GetResult()), limits.Result)
	}
	doc, err := decode(v.GetResult(), b.plugin.cfg.Strict)
	if err != nil {
		return probe.Outcome{}, protocolError("result: %w", err)
	}
	if len(doc.Message) > limits.Message {
		c.hits[plugin.LimitMessage] = true
		doc.Message = c.req.Redacted(doc.Message) // half a secret would not be found later
		doc.Message = strings.ToValidUTF8(doc.Message[:min(len(doc.Message), limits.Message)], "")
	}
	if len(doc.Details) > limits.Message { // half an object is none
		c.hits[plugin.LimitMessage] = true
		doc.Details = nil
	}
	if len(doc.Metrics) > limits.Series {
		c.hits[plugin.LimitSeries] = true
		doc.Metrics = doc.Metrics[:limits.Series]
	}
	if v.GetCode() < 0 {
		if doc.Message == "" {
			doc.Message = fmt.Sprintf("the plugin answered %d", v.GetCode())
		}
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonGuest, Err: errors.New(doc.Message)}
	}
	result, ok := probe.FromExitCode(int(v.GetCode()))
	if !ok || doc.HasResult && doc.Result != result {
		return probe.Outcome{}, protocolError("the plugin answered %d; want 0 to 3, as its result says, or a negative number", v.GetCode())
	}
	if err := b.keep(v.GetKv(), limits.KV); err != nil {
		c.hits[plugin.LimitKV] = true
		return probe.Outcome{}, err
	}
	return probe.Outcome{Result: result, Output: doc.Message, Metrics: doc.Metrics, Details: string(doc.Details)}, nil
}

// decode reads a result, which may be empty, and makes text of what is none.
func decode(result []byte, strict bool) (abi.Result, error) {
	switch {
	case len(result) == 0:
		return abi.Result{}, nil
	case !utf8.Valid(result):
		result = bytes.ToValidUTF8(result, []byte("\uFFFD"))
	}
	if strict {
		return abi.DecodeStrictResult(result)
	}
	return abi.DecodeResult(result)
}

// keep takes in what the probe keeps from now on.
func (b *bound) keep(kv *pluginpb.KV, most int) error {
	if kv == nil || !b.plugin.keeps {
		return nil
	}
	size := 0
	for key, value := range kv.GetValues() {
		size += len(key) + len(value)
	}
	if n := len(kv.GetValues()); n > abi.MaxKVKeys {
		return protocolError("%d keys; at most %d are allowed", n, abi.MaxKVKeys)
	}
	if size > most {
		return protocolError("keys and values of %d bytes; at most %d are allowed", size, most)
	}
	b.Keep(kv.GetValues())
	return nil
}

// missed notes that a question was not taken. A process that took none for so long that a
// new one would serve by now is ended.
func (in *instance) missed(patience time.Duration) {
	now := time.Since(in.since)
	if in.missedAt.CompareAndSwap(0, int64(now)) {
		return
	}
	// It may have taken another one this moment.
	if first := in.missedAt.Load(); first != 0 && now-time.Duration(first) > patience {
		_ = in.child.Kill(context.Background())
	}
}

// fault is the error of a call that the process did not answer. asked says that it is one
// about a config, of which nobody else gets to know.
func (in *instance) fault(ctx context.Context, err error, asked bool) error {
	if _, ok := errors.AsType[*probe.Error](err); ok {
		return err
	}
	s := status.Convert(err)
	if s.Code() == codes.Unavailable { // a process that ends closes its connection first
		in.child.awaitEnd(ctx)
		_ = in.child.Kill(context.Background()) // one that lives on and does not serve is of no use
	}
	if !in.ready() {
		return &probe.Error{Reason: probe.ReasonTrap, Err: fmt.Errorf("the process ended: %s", in.child.epitaph(asked))}
	}
	reason := probe.ReasonProtocol
	if s.Code() == codes.Unavailable || s.Code() == codes.Internal {
		reason = probe.ReasonTrap
	}
	return &probe.Error{Reason: reason, Err: fmt.Errorf("the process answers %s: %s", s.Code(), oneLine(s.Message()))}
}

func protocolError(format string, args ...any) error {
	return &probe.Error{Reason: probe.ReasonProtocol, Err: fmt.Errorf(format, args...)}
}

// requestDoc is the request document.
func (c *call) requestDoc(config []byte) []byte {
	q, m := c.req, c.plugin.manifest
	doc := abi.Request{
		ABI:    abi.Version,
		Plugin: abi.Plugin{Name: m.Name, Version: m.Version, Digest: c.plugin.digest},
		Probe: abi.Probe{
			Kind: q.Kind, Attempt: q.Attempt, PeriodMs: q.Spec.Period.Milliseconds(), TimeoutMs: q.Spec.Timeout.Milliseconds(),
			FailureThreshold: q.Spec.FailureThreshold, LastResult: q.LastResult,
		},
		Target: guestTarget(q.Target), Container: abi.Container{ID: q.ContainerID}, Config: config,
		Host: abi.Host{Version: c.plugin.cfg.Version, Features: c.plugin.features()},
	}
	if q.Pod != nil {
		doc.Pod = abi.Pod{Namespace: q.Pod.Namespace, Name: q.Pod.Name, UID: q.Pod.UID, Labels: q.Pod.Labels}
	}
	if q.Container != nil {
		doc.Container.Name, doc.Container.Ports = q.Container.Name, q.Container.Ports
	}
	return abi.AppendRequest(make([]byte, 0, 1024), &doc)
}

// guestTarget returns what a plugin is told of its target.
func guestTarget(t probe.Target) abi.Target {
	out := abi.Target{Host: t.Host, Port: t.Port, Unix: t.Unix}
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		out.IP = addr.String()
	}
	return out
}
