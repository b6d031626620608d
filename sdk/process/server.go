package process

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// server answers the requests of the host. It is safe for concurrent use.
type server struct {
	pluginpb.UnimplementedPluginServer
	plugin   sdk.Plugin
	manifest []byte
	guide    *guide       // client of a test that simulates peers; nil outside of tests
	stderr   io.Writer    // stderr of the process; go-plugin replaces os.Stderr
	overdue  atomic.Int32 // attempts that continue after their deadline
}

// maxOverdue is the maximum number of attempts that continue after their deadline. A plugin with more of
// them leaks, and is restarted.
const maxOverdue = 256

// Describe implements [pluginpb.PluginServer].
func (s *server) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	_, validates := s.plugin.(sdk.ConfigValidator)
	return &pluginpb.DescribeResponse{Abi: abi.Version, Manifest: s.manifest, ValidatesConfig: validates}, nil
}

// ValidateConfig implements [pluginpb.PluginServer].
func (s *server) ValidateConfig(_ context.Context, in *pluginpb.ValidateConfigRequest) (*pluginpb.ValidateConfigResponse, error) {
	q, err := abi.DecodeRequest(in.GetRequest())
	if err == nil {
		err = s.validate(q.Config)
	}
	if err != nil {
		return &pluginpb.ValidateConfigResponse{Code: 1, Message: strings.ToValidUTF8(probe.Cut(err.Error()), "\uFFFD")}, nil
	}
	return &pluginpb.ValidateConfigResponse{}, nil
}

func (s *server) validate(config []byte) error {
	c, err := sdk.NewConfig(config)
	if err != nil {
		return err
	}
	if v, ok := s.plugin.(sdk.ConfigValidator); ok {
		if err := v.ValidateConfig(c); err != nil {
			return err
		}
	}
	return c.Err()
}

// Probe implements [pluginpb.PluginServer].
func (s *server) Probe(in *pluginpb.ProbeRequest, stream grpc.ServerStreamingServer[pluginpb.ProbeEvent]) error {
	if err := stream.SendHeader(nil); err != nil { // signals the host that the request is accepted
		return err
	}
	q, err := abi.DecodeRequest(in.GetRequest())
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "read the request: %v", err)
	}
	defer s.watch(stream.Context())()
	logs := &logStream{stream: stream}
	defer logs.end()
	var kept map[string][]byte // nil if the plugin has no store
	if in.GetKv() != nil {
		kept = make(map[string][]byte, len(in.Kv.GetValues()))
		maps.Copy(kept, in.Kv.GetValues())
	}
	out, err := s.attempt(sdk.WithHost(stream.Context(), s.guide.host(kept)), &q, logs.trace)
	logs.end()
	if ctxErr := stream.Context().Err(); ctxErr != nil {
		return status.FromContextError(ctxErr).Err()
	}
	return stream.Send(&pluginpb.ProbeEvent{Event: &pluginpb.ProbeEvent_Verdict{Verdict: verdict(out, err, kept)}})
}

// watch counts an attempt that continues after the end of ctx, until done is called.
func (s *server) watch(ctx context.Context) (done func()) {
	inTime := context.AfterFunc(ctx, func() {
		if s.overdue.Add(1) > maxOverdue {
			fmt.Fprintf(s.stderr, "more than %d attempts continue after their deadline\n", maxOverdue)
			endGroup()
			os.Exit(1)
		}
	})
	return func() {
		if !inTime() {
			s.overdue.Add(-1)
		}
	}
}

// attempt makes one attempt. A panic is an error of the attempt, and other attempts continue.
func (s *server) attempt(ctx context.Context, q *abi.Request, trace probe.Tracer) (out probe.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			_, _ = s.stderr.Write(debug.Stack())
			out, err = probe.Outcome{}, fmt.Errorf("panic: %v", p)
		}
	}()
	// The config was validated when the probe was added, so only Probe is called.
	h, err := sdk.Native(sdk.Func(s.plugin.Probe)).Prepare(q.Config, target(q))
	if err != nil {
		return probe.Outcome{}, err
	}
	return h.Probe(ctx, probe.Request{
		Kind: q.Probe.Kind, Attempt: q.Probe.Attempt, LastResult: q.Probe.LastResult, Target: target(q), Trace: trace,
		Spec: probe.Spec{
			Period: milliseconds(q.Probe.PeriodMs), Timeout: milliseconds(q.Probe.TimeoutMs), FailureThreshold: q.Probe.FailureThreshold,
		},
		Pod:         &probe.Pod{Namespace: q.Pod.Namespace, Name: q.Pod.Name, UID: q.Pod.UID, Labels: q.Pod.Labels},
		Container:   &probe.Container{Name: q.Container.Name, Ports: q.Container.Ports},
		ContainerID: q.Container.ID,
	})
}

func target(q *abi.Request) probe.Target {
	return probe.Target{Host: q.Target.Host, Port: q.Target.Port, Unix: q.Target.Unix}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// verdict returns the verdict for the host.
func verdict(out probe.Outcome, err error, kept map[string][]byte) *pluginpb.Verdict {
	if err != nil {
		return &pluginpb.Verdict{Code: -1, Result: abi.AppendResult(nil, &abi.Result{Message: probe.Cut(err.Error())})}
	}
	out.Output = probe.Cut(out.Output)
	doc := abi.AppendOutcome(nil, out)
	v := &pluginpb.Verdict{Code: int32(out.Result.ExitCode()), Result: doc}
	if kept != nil {
		v.Kv = &pluginpb.KV{Values: kept}
	}
	return v
}

// logStream sends the log lines of one attempt. It serializes them, because a plugin may log from several
// goroutines.
type logStream struct {
	stream grpc.ServerStreamingServer[pluginpb.ProbeEvent]

	mu    sync.Mutex
	ended bool
}

// maxLine is the maximum number of bytes of a log line that is sent.
const maxLine = 16 << 10

func (l *logStream) trace(e probe.TraceEvent) {
	if e.Type != probe.TraceLog {
		return
	}
	text := strings.ToValidUTF8(e.Detail[:min(len(e.Detail), maxLine)], "\uFFFD")
	line := &pluginpb.LogLine{Level: level(e.Name), Line: text}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended && l.stream.Send(&pluginpb.ProbeEvent{Event: &pluginpb.ProbeEvent_Log{Log: line}}) != nil {
		l.ended = true
	}
}

func (l *logStream) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func level(name string) int32 {
	for _, l := range []sdk.Level{sdk.Debug, sdk.Info, sdk.Warn} {
		if l.String() == name {
			return int32(l)
		}
	}
	return int32(sdk.Error)
}
