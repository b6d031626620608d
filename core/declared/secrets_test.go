package declared_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

func TestResolveSecrets(t *testing.T) {
	config, secrets, err := declared.ResolveSecrets([]byte(`{"password":"${env:TOKEN}"}`), resolveSecret)
	if err != nil || string(config) != `{"password":"hunter2-token"}` {
		t.Fatalf("got %s, %v", config, err)
	}
	out, err := secrets.Handler(probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Output: req.Redacted("hunter2-token") + " or hunter2-token"}, nil
	})).Probe(t.Context(), probe.Request{})
	if want := "[redacted] or [redacted]"; err != nil || out.Output != want {
		t.Errorf("got %q, %v, want %q", out.Output, err, want)
	}
	if got := secrets.Error(errors.New("no user hunter2-token")).Error(); got != "no user [redacted]" {
		t.Errorf("got %q", got)
	}
	if _, _, err := declared.ResolveSecrets([]byte(`{"password":"${env:NONE}"}`), resolveSecret); !errors.Is(err, errNoSecret) {
		t.Errorf("got %v, want %v", err, errNoSecret)
	}
	config, secrets, err = declared.ResolveSecrets([]byte(`{}`), nil)
	if err != nil || string(config) != "{}" || secrets.Error(nil) != nil {
		t.Errorf("got %s, %v", config, err)
	}
}

// TestSecretsAreRedactedInEveryEncoding has a handler that returns a secret in the encodings of other
// programs.
func TestSecretsAreRedactedInEveryEncoding(t *testing.T) {
	var vectors []struct{ Secret, Encoding, Text string }
	data, err := os.ReadFile("../../internal/redact/testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(data, &vectors)
	}
	if err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		_, secrets, err := declared.ResolveSecrets([]byte(`{"password":"${env:PW}"}`), func(string, string) (string, error) { return v.Secret, nil })
		if err != nil {
			t.Fatal(err)
		}
		out, err := secrets.Handler(probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{Output: v.Text}, errors.New(v.Text)
		})).Probe(t.Context(), probe.Request{})
		for _, text := range []string{out.Output, err.Error()} {
			if !strings.Contains(text, "[redacted]") || len(strings.ReplaceAll(text, "[redacted]", "")) > 40 {
				t.Errorf("%s of %s: %s becomes %s", v.Encoding, v.Secret, v.Text, text)
			}
		}
	}
}

// withSecrets returns h bound to a config with references to values.
func withSecrets(t *testing.T, h probe.Handler, values ...string) probe.Handler {
	t.Helper()
	refs := make([]string, len(values))
	for i := range values {
		refs[i] = fmt.Sprintf(`"${env:%d}"`, i)
	}
	_, secrets, err := declared.ResolveSecrets([]byte(`{"passwords":[`+strings.Join(refs, ",")+`]}`), func(_, name string) (string, error) {
		i, err := strconv.Atoi(name)
		return values[i], err
	})
	if err != nil {
		t.Fatal(err)
	}
	return secrets.Handler(h)
}

// The manager passes no tracer, so the test calls the handler directly.
func TestSecretsAreRedactedInTraces(t *testing.T) {
	var got []probe.TraceEvent
	h := withSecrets(t, probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
		req.Trace.Emit(probe.TraceEvent{Type: probe.TraceCall, Name: "get pw", Detail: "pw-longer, pw"})
		return probe.Outcome{}, nil
	}), "pw", "pw-longer")
	if _, err := h.Probe(t.Context(), probe.Request{Trace: func(e probe.TraceEvent) { got = append(got, e) }}); err != nil {
		t.Fatal(err)
	}
	want := []probe.TraceEvent{{Type: probe.TraceCall, Name: "get [redacted]", Detail: "[redacted], [redacted]"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSecretsAreRedactedInMetrics has secrets in the name of a metric and in the name of a label.
func TestSecretsAreRedactedInMetrics(t *testing.T) {
	labels := map[string]string{"pw_key": "x", "user": "pw"}
	h := withSecrets(t, probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Metrics: []probe.Metric{{Name: "conn_pw", Value: 1}, {Name: "conn", Value: 2, Labels: labels}}}, nil
	}), "pw")
	got, err := h.Probe(t.Context(), probe.Request{})
	if err != nil {
		t.Fatal(err)
	}
	want := []probe.Metric{{Name: "conn", Value: 2, Labels: map[string]string{"user": "[redacted]"}}}
	if diff := cmp.Diff(want, got.Metrics); diff != "" {
		t.Error(diff)
	}
	if len(labels) != 2 {
		t.Error("the handler's own map was changed")
	}
}

func TestResolveSecretsNeedsUTF8(t *testing.T) {
	resolve := func(string, string) (string, error) { return "pass\xffword", nil }
	_, _, err := declared.ResolveSecrets([]byte(`{"password":"${file:/run/pw}"}`), resolve)
	if err == nil || !strings.Contains(err.Error(), "${file:/run/pw}: ") || !strings.Contains(err.Error(), "not valid UTF-8") || strings.Contains(err.Error(), "pass\xff") {
		t.Errorf("got %v", err)
	}
}

// A config of 256 KiB has room for 30,000 references. Each must take as long as the first.
func TestManyReferencesAreResolvedOnce(t *testing.T) {
	many := []byte(`{"password":"` + strings.Repeat("${file:/a}", 25000) + `"}`)
	calls := 0
	refuse := func(string, string) (string, error) { calls++; return "", errors.New("not listed") }
	if _, _, err := declared.ResolveSecrets(many, refuse); err == nil || err.Error() != "${file:/a}: not listed" || calls != 1 {
		t.Errorf("%d calls, an error of %d bytes", calls, len(err.Error()))
	}
	long := func(string, string) (string, error) { calls++; return strings.Repeat("s", 1000), nil }
	want := "the config takes more than 4194304 bytes with its secrets"
	if resolved, _, err := declared.ResolveSecrets(many, long); err == nil || err.Error() != want || calls != 2 {
		t.Errorf("%d bytes after %d calls, error %v", len(resolved), calls, err)
	}
	var others strings.Builder
	const different = 5000
	for i := range different {
		fmt.Fprintf(&others, "${env:%d}", i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	calls = 0
	if _, _, err := declared.ResolveSecrets([]byte(`{"password":"`+others.String()+`"}`), refuse); err == nil || strings.Count(err.Error(), "not listed") != different {
		t.Errorf("error %v", err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; calls != different || took > 100<<20 { // a pass over the config for each reference would allocate 300 MB
		t.Errorf("%d other references took %d calls and allocated %d bytes", different, calls, took)
	}
}
