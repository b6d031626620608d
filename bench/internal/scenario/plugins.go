package scenario

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/daeace23/prober/bench/internal/attempt"
	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
)

// plugins compares WebAssembly guests with a process.
func plugins() Scenario {
	atMost := func(text, figure, subject string, most float64) Goal {
		return Goal{Text: subject + ": " + text, Figure: figure, Subject: subject, AtMost: most}
	}
	below := func(text, subject string, most float64) Goal {
		return Goal{Text: subject + ": " + text, Figure: "p50-us", Subject: subject, Over: attempt.Process, AtMost: most}
	}
	return Scenario{
		Name: "plugins", Title: "Plugins", Rounds: 4, Seconds: 1,
		Text: "A check that reads its config and succeeds, with a hard deadline, one at a time, alternating in one process: guests in C and Go by isolation, and a process of go-plugin, whose own CPU is not counted. " +
			"" +
			"The limit: a call of an empty function through wazero, without a deadline. A start of a cached Go guest ends when its first instance has run _initialize; wazero's is the same without prober. " +
			"A start of a process, the median of nine, ends when the program has described itself: 19 MB, read and hashed before. Alone, the program only writes where it listens, without TLS. RATIONALE.md says where the time of a check in Go goes. Without clang there are no guests in C.",
		Why:     "What keeps a pooled guest in C from its goal: the clock and wazero. By the profile, five readings of the clock take 28 %, 50 ns each, three of them by the context of the attempt. The guest's code and wazero's entries and exits take 21 %, two host calls 10 %, and no other function more than 4 %.",
		Columns: append(slices.Clone(attemptColumns), Column{"start-ms", "ms a start"}, Column{"beyond-ms", "ms beyond the process alone"}),
		Ratio:   "p50-us", Peer: attempt.Process, Limit: attempt.Limit,
		Goals: []Goal{
			atMost("p50 ≤ 25 µs", "p50-us", attempt.CReset, 25), atMost("p50 ≤ 1.5 µs", "p50-us", attempt.CPooled, 1.5),
			atMost("p50 ≤ 300 µs", "p50-us", attempt.GoReset, 300), atMost("p50 ≤ 5 µs", "p50-us", attempt.GoPooled, 5),
			below("p50 ≤ 1/100 of a process", attempt.CPooled, 1.0/100), below("p50 ≤ 1/40 of a process", attempt.GoPooled, 1.0/40),
			atMost("start ≤ 50 ms", "start-ms", attempt.Cached, 50),
			{Text: attempt.Cached + ": start ≤ wazero's alone", Figure: "start-ms", Subject: attempt.Cached, Over: attempt.BareCached, AtMost: 1},
			atMost("≤ 20 ms beyond the process alone", "beyond-ms", attempt.ProcessStart, 20),
		},
		Run: func(ctx context.Context, e *Env) (err error) {
			dir, err := os.MkdirTemp("", "prober-plugins")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			r := attempt.PluginRequest{
				C: filepath.Join(dir, "c.wasm"), Go: filepath.Join(dir, "go.wasm"), Process: filepath.Join(dir, "prober-plugin-tester"),
				Rounds: e.Rounds, Seconds: float64(e.Seconds),
			}
			e.Logf("building plugins")
			if _, err := exec.LookPath("clang"); err != nil {
				e.Logf("no guests in C: %v", err)
				r.C = ""
			} else if err := build(ctx, "clang", "--target=wasm32", "-nostdlib", "-O2", "-Wl,--no-entry", "-Isdk/c", "-o", r.C, "handlers/wasm/testdata/hello.c"); err != nil {
				return err
			}
			for _, command := range [][]string{
				{"env", "GOOS=wasip1", "GOARCH=wasm", "go", "build", "-buildmode=c-shared", "-o", r.Go, "./handlers/wasm/testdata/hello"},
				{"go", "build", "-o", r.Process, "./handlers/process/testdata/plugin"},
			} {
				if err := build(ctx, command...); err != nil {
					return err
				}
			}
			e.Logf("%d rounds", e.Rounds)
			var runs []record.Run
			if err := child.Run(ctx, attempt.PluginJob, r, &runs); err != nil {
				return err
			}
			for _, r := range runs {
				e.Emit(r)
			}
			return nil
		},
	}
}

// endless measures guests with endless loops, which are ended at their deadline.
func endless() Scenario {
	return Scenario{
		Name: "endless", Title: "Guests that compute for ever", Rounds: 4, Seconds: 1,
		Text:    "How long attempts last beyond a deadline of 20 ms, one at a time. Fuel ends all modules that can be metered, the checks of wazero the others; here each guest is ended by both.",
		Columns: []Column{{"max-ms", "max ms late"}}, BySubject: true,
		Goals: []Goal{
			{Text: "any guest ends ≤ 50 ms after its deadline", Figure: "max-ms", Subject: attempt.Fuel, Params: guest(attempt.AllGuests), AtMost: 50},
		},
		Run: func(ctx context.Context, e *Env) error {
			var runs []record.Run
			e.Logf("%d rounds", e.Rounds)
			if err := child.Run(ctx, attempt.EndlessJob, attempt.EndlessRequest{Rounds: e.Rounds, Attempts: 10 * e.Seconds}, &runs); err != nil {
				return err
			}
			for _, r := range runs {
				e.Emit(r)
			}
			return nil
		},
	}
}

func guest(name string) []record.Param { return []record.Param{{Name: "guest", Value: name}} }
