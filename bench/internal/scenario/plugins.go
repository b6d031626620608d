package scenario

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

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
		Text: "A check that reads its config and succeeds, with a hard deadline, one at a time: guests in C and Go by isolation, and the same in a process of go-plugin, whose own CPU is not counted. " +
			"The context of an attempt has a deadline, and like that of a worker a timer only if the handler asks for it. " +
			"All alternate in one process. The limit: a call of an empty function through wazero, without a deadline. A start is that of a Go guest which is compiled in the cache, until its first instance has run _initialize; that of wazero alone is the same without prober. " +
			"The start of a process is that of a program of 19 MB, which was read and hashed before, until it has described itself, the median of nine; alone it has only to write the line that says where it listens, without TLS. A check in Go that asks a server takes longer: RATIONALE.md says where its time goes. Without clang there are no guests in C.",
		Why:     "What keeps a pooled guest in C from its goal: the clock and wazero. By the profile, 28 % of the time are five readings of the clock, 50 ns each, three of them by the context of the attempt. 21 % are the code of the guest and wazero's entries and exits, 10 % two host calls, and no other function has more than 4 %.",
		Columns: append(attemptColumns[:len(attemptColumns)-1:len(attemptColumns)-1], Column{"read-ms", "ms to read"}, Column{"start-ms", "ms a start"}, Column{"beyond-ms", "ms beyond the process alone"}),
		Ratio:   "p50-us", Peer: attempt.Process, Limit: attempt.Limit,
		Goals: []Goal{
			atMost("p50 ≤ 25 µs", "p50-us", attempt.CReset, 25), atMost("p50 ≤ 1.5 µs", "p50-us", attempt.CPooled, 1.5),
			atMost("p50 ≤ 300 µs", "p50-us", attempt.GoReset, 300), atMost("p50 ≤ 5 µs", "p50-us", attempt.GoPooled, 5),
			below("p50 ≤ 1/100 of a process", attempt.CPooled, 1.0/100), below("p50 ≤ 1/40 of a process", attempt.GoPooled, 1.0/40),
			atMost("start ≤ 50 ms", "start-ms", attempt.Cached, 50),
			{Text: attempt.Cached + ": start ≤ that of wazero alone", Figure: "start-ms", Subject: attempt.Cached, Over: attempt.BareCached, AtMost: 1},
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
		Text:    "Guests that compute for ever, each in its own way, have 20 ms: how long after that their attempts end, one at a time. Fuel ends all modules that can be metered, the checks of wazero the others; here each guest is ended by both.",
		Columns: []Column{{"p50-ms", "p50 ms late"}, {"max-ms", "max ms late"}},
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
