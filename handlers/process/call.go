package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// bound is a plugin with the config of one probe.
type bound struct {
	plugin *Handler
	config []byte         // with defaults
	url    string         // the URL in config, see [attempt.URLOf]
	store  *attempt.Store // set before the first attempt begins
}

var (
	_ probe.Inheritor    = (*bound)(nil)
	_ probe.SecretHolder = (*bound)(nil)
	_ probe.SecretKeeper = (*bound)(nil)
	_ probe.Releaser     = (*bound)(nil)
	_ probe.Describer    = (*bound)(nil)
)

// Describe implements [probe.Describer].
func (b *bound) Describe(name string, req *probe.Request) string {
	return attempt.Describe(name, b.url, req)
}

// Kept implements wasm.Keeper, for tests of plugins.
func (b *bound) Kept() map[string][]byte { return maps.Clone(b.store.Load()) }

// Keep implements wasm.Keeper.
func (b *bound) Keep(data map[string][]byte) { b.store.Replace(maps.Clone(data)) }

// Secrets implements [probe.SecretHolder].
func (b *bound) Secrets() []string { return b.plugin.manifest.Config.SecretsOf(b.config) }

// KeepSecret implements [probe.SecretKeeper]. The secret is kept until Release, because the process may
// write the config at any time.
func (b *bound) KeepSecret(redact func(text string) string) { b.plugin.secrets.keep(b, redact) }

// Release implements [probe.Releaser].
func (b *bound) Release() { b.plugin.secrets.forget(b) }

// Inherit implements [probe.Inheritor]. A new version of the plugin shares the keys and values of the
// probe with the old version. A last attempt of the old version may still change them.
func (b *bound) Inherit(from probe.Handler) {
	if old, ok := from.(*bound); ok {
		b.store = old.store
	}
}

// call is one attempt. Only the goroutine that makes the attempt may use it.
type call struct {
	ctx      context.Context
	plugin   *Handler
	req      *probe.Request
	progress progress
	log      attempt.Log
	once     attempt.Once
}

// Probe implements [probe.Handler].
func (b *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	out, err := b.attempt(ctx, req)
	if err == nil {
		return out, nil
	}
	if out, ok := attempt.FailureOf(b.plugin.manifest, &req, err); ok {
		return out, nil
	}
	return probe.Outcome{}, attempt.Named(b.plugin.manifest.Name, err)
}

// attempt carries out one attempt.
func (b *bound) attempt(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	start := time.Now()
	if ctx.Err() != nil {
		return ended(ctx, &req, start)
	}
	if err := checkNetwork(ctx, &req); err != nil {
		return probe.Outcome{}, err
	}
	c := &call{ctx: ctx, plugin: b.plugin, req: &req}
	if err := b.plugin.gate.enter(); err != nil {
		return probe.Outcome{}, err
	}
	defer b.plugin.gate.leave()
	in, err := b.plugin.keeper.process(ctx, req.Attempt)
	if err != nil {
		return probe.Outcome{}, err
	}
	waited := time.Since(start)
	in.used.Store(true)
	c.traceStart(in, waited)
	c.progress.begin(in, req.Debug)
	verdict, err := c.ask(in, b)
	c.traceCall(in, verdict, err)
	if err == nil {
		return b.outcome(c, verdict)
	}
	deadline, limited := ctx.Deadline()
	switch {
	case ctx.Err() == context.Canceled:
		return probe.Outcome{}, ctx.Err()
	case !in.child.ready() || !limited || status.Code(err) != codes.DeadlineExceeded || time.Until(deadline) > skew:
		return probe.Outcome{}, in.fault(ctx, err, false)
	case waited > deadline.Sub(start)/2:
		return probe.Outcome{}, &attempt.Skipped{Err: errors.New("the process took most of the time to start")}
	case c.progress.accepted == 0:
		c.explain(in, nil)
		in.missed(b.plugin.cfg.StartTimeout)
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonTrap, Err: errors.New("the process does not accept requests")}
	}
	out, err := ended(ctx, &req, start)
	c.explain(in, &out)
	return out, err
}

// checkNetwork returns an error if ctx requires a network namespace other than the host's, or if its
// guard refuses the target. A program looks names up itself, so the guard does not see addresses.
func checkNetwork(ctx context.Context, req *probe.Request) error {
	n := netns.From(ctx)
	switch {
	case n == nil && req.Target.Unix != "":
		return netns.Check(ctx, netns.To{Socket: req.Target.Unix})
	case n == nil:
		return netns.CheckHost(ctx, req.Target.Host, req.Target.Port)
	}
	return &probe.Error{Reason: probe.ReasonDenied, Err: fmt.Errorf("a program cannot probe in the network namespace %s; WebAssembly plugins can", n.Path())}
}

// skew is how much earlier than here a deadline may expire in a process. The process gets the remaining
// time, not the time of the deadline.
const skew = 20 * time.Millisecond

// ended returns the outcome of an attempt whose context has ended.
func ended(ctx context.Context, req *probe.Request, start time.Time) (probe.Outcome, error) {
	if ctx.Err() == context.Canceled {
		return probe.Outcome{}, ctx.Err()
	}
	return attempt.TimedOut(req, time.Since(start)), nil
}

// Limits of an answer before its verdict.
const (
	maxEvents    = 100_000 // messages
	maxLineBytes = 4 << 20 // bytes of log lines
)

// ask sends the request and reads the answer up to its verdict.
func (c *call) ask(in *instance, b *bound) (*pluginpb.Verdict, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel() // ends the stream
	request := &pluginpb.ProbeRequest{Request: c.plugin.about.Request(c.req, b.config)}
	if c.plugin.keeps {
		request.Kv = &pluginpb.KV{Values: b.store.Load()}
	}
	stream, err := in.rpc.Probe(ctx, request)
	if err != nil {
		return nil, err
	}
	if head, err := stream.Header(); err == nil && head != nil {
		c.progress.accepted = max(1, time.Since(c.progress.sent))
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
			return nil, attempt.ProtocolError("the process ended its answer without a verdict")
		case err != nil:
			return nil, err
		}
		if v := event.GetVerdict(); v != nil {
			return v, nil
		}
		if line := event.GetLog(); line != nil {
			c.progress.note(line.GetLine())
			c.logLine(line)
			if taken += len(line.GetLine()); taken > maxLineBytes {
				return nil, attempt.ProtocolError("more than %d bytes of log and no verdict", maxLineBytes)
			}
		}
	}
	return nil, attempt.ProtocolError("more than %d messages and no verdict", maxEvents)
}

// logLine logs one line, within the limits of the attempt.
func (c *call) logLine(l *pluginpb.LogLine) {
	limits := &c.plugin.limits
	if c.log.Full(limits, c.hit) {
		return
	}
	text := c.log.Add(c.req.Redacted(l.GetLine()), limits, c.req.Redacted, c.hit)
	name := levelName(l.GetLevel())
	c.req.Trace.Emit(probe.TraceEvent{Type: probe.TraceLog, Name: name, Detail: text})
	c.plugin.cfg.Logger.DebugContext(c.ctx, text, "handler", c.plugin.manifest.Name, "from", name)
}

func (c *call) hit(limit int) { c.once.Add(limit, &c.plugin.hits) }

func levelName(level int32) string {
	names := [...]string{abi.LevelDebug: "debug", abi.LevelInfo: "info", abi.LevelWarn: "warn", abi.LevelError: "error"}
	return names[min(max(level, abi.LevelDebug), abi.LevelError)]
}

// outcome returns the outcome of a verdict. It applies the limits, and stores the keys and values.
func (b *bound) outcome(c *call, v *pluginpb.Verdict) (probe.Outcome, error) {
	limits := &c.plugin.limits
	if n := len(v.GetResult()); n > limits.Result {
		c.hit(plugin.LimitResult)
		return probe.Outcome{}, attempt.ProtocolError("result of %d bytes; at most %d are allowed", n, limits.Result)
	}
	doc, err := attempt.DecodeResult(v.GetResult(), c.plugin.cfg.Strict)
	if err != nil {
		return probe.Outcome{}, attempt.ProtocolError("result: %w", err)
	}
	out, err := attempt.Outcome(c.req, int(v.GetCode()), &doc, limits, c.hit)
	if err != nil || v.GetKv() == nil || !c.plugin.keeps {
		return out, err
	}
	if err := b.store.ReplaceWithin(v.GetKv().GetValues(), limits.KV); err != nil {
		c.hit(plugin.LimitKV)
		return probe.Outcome{}, err
	}
	return out, nil
}

// missed records that the process did not accept a request. If the process has not accepted any request
// for longer than patience, missed kills it: a new process would have started in this time.
func (in *instance) missed(patience time.Duration) {
	now := time.Since(in.since)
	if in.missedAt.CompareAndSwap(0, int64(now)) {
		return
	}
	// The process may have accepted another request meanwhile.
	if first := in.missedAt.Load(); first != 0 && now-time.Duration(first) > patience {
		in.child.kill()
	}
}

// fault returns the error for a call that the process did not answer. validates is true for the
// validation of a config, and false for an attempt.
func (in *instance) fault(ctx context.Context, err error, validates bool) error {
	if _, ok := errors.AsType[*probe.Error](err); ok {
		return err
	}
	s := status.Convert(err)
	if s.Code() == codes.Unavailable { // a process that ends closes its connection first
		in.child.awaitEnd(ctx)
		in.child.kill() // a process without a connection cannot be used
	}
	if !in.child.ready() {
		return &probe.Error{Reason: probe.ReasonTrap, Err: fmt.Errorf("the process ended: %s", in.child.exitStatus(validates))}
	}
	reason := probe.ReasonProtocol
	if s.Code() == codes.Unavailable || s.Code() == codes.Internal {
		reason = probe.ReasonTrap
	}
	return &probe.Error{Reason: reason, Err: fmt.Errorf("the process answers %s: %s", s.Code(), firstLine(s.Message()))}
}
