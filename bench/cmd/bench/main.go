// Bench measures prober and the kubelet's own code, and writes docs/performance.md. Run it in the folder
// bench:
//
//	go run -tags k8s136 ./cmd/bench -scenario http,period-1s -again
//
// Each scenario writes a record. A scenario is skipped if it has a record with the same flags, so an
// interrupted run continues where it stopped, and a full run replaces the record of a quick one. The page is
// written after each scenario. A scenario that fails keeps its old record, and the others still run. Bench
// needs Linux, and a machine without other load.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/report"
	"github.com/daeace23/prober/bench/internal/scenario"
)

func main() {
	child.Main(scenario.Jobs())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(64)
	default:
		fmt.Fprintln(os.Stderr, "bench: error:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	scenarios string
	seconds   int
	rounds    int
	probes    int
	again     bool
	list      bool
	records   string
	page      string
	profiles  string
	peers     map[string]string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.scenarios, "scenario", "peers", "names, separated by commas; peers is all but scale; none only writes the page")
	flags.IntVar(&o.seconds, "seconds", 0, "length of one measurement; default: the scenario's")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of each subject; default: the scenario's")
	flags.IntVar(&o.probes, "probes", 0, "maximum number of probes of a load, for a quick run; default: no limit")
	flags.BoolVar(&o.again, "again", false, "also measure scenarios that have a record with the same flags")
	flags.BoolVar(&o.list, "list", false, "list the scenarios")
	flags.StringVar(&o.records, "records", "records", "folder of the records")
	flags.StringVar(&o.page, "page", "../docs/performance.md", `the page to write; "" writes none`)
	flags.StringVar(&o.profiles, "profiles", "", "folder for processor and heap profiles of managers under load; the figures are shown, but not recorded")
	o.peers = make(map[string]string)
	flags.Func("peer", "NAME=PATH of another prober, which the scenario targets measures too: cloudprober or blackbox_exporter; may be repeated", func(text string) error {
		name, path, ok := strings.Cut(text, "=")
		if !ok || path == "" {
			return errors.New("must be NAME=PATH")
		}
		o.peers[name] = path
		return scenario.CheckPeers(o.peers)
	})
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.list {
		for _, s := range scenario.All() {
			fmt.Fprintf(stdout, "%-11s %s\n", s.Name, s.Title)
		}
		return nil
	}
	store := record.Store{Dir: o.records}
	if o.scenarios == "none" {
		return o.write(store)
	}
	return o.measure(ctx, store, stdout, stderr)
}

// write writes the page.
func (o *options) write(store record.Store) error {
	if o.page == "" {
		return nil
	}
	return report.Write(o.page, scenario.All(), store)
}

// measure runs the scenarios that have no record with these flags. It continues after a failed one.
func (o *options) measure(ctx context.Context, store record.Store, stdout, stderr io.Writer) error {
	found, err := scenario.Find(strings.Split(o.scenarios, ","))
	if err != nil {
		return err
	}
	var failed []error
	for i := range found {
		s := &found[i]
		old, err := store.Load(s.Name)
		if err != nil {
			return err
		}
		if old != nil && old.Command == o.command(s) && !o.again && o.profiles == "" {
			fmt.Fprintf(stderr, "bench: %s has a record of commit %s; -again replaces it\n", s.Name, old.Machine.Commit)
			continue
		}
		fmt.Fprintf(stderr, "bench: %s, %d of %d\n", s.Name, i+1, len(found))
		r, err := o.one(ctx, s, stdout, stderr)
		if ctx.Err() != nil {
			return errors.Join(append(failed, fmt.Errorf("%s: %w", s.Name, context.Cause(ctx)))...)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", s.Name, err)
			fmt.Fprintln(stderr, "bench: error:", err)
			failed = append(failed, err)
			continue
		}
		if o.profiles != "" {
			continue
		}
		if err := store.Save(r); err != nil {
			return err
		}
		if err := o.write(store); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, o.write(store))...)
}

// one measures a scenario. It prints each run as a line of JSON on stdout.
func (o *options) one(ctx context.Context, s *scenario.Scenario, stdout, stderr io.Writer) (_ *record.Record, err error) {
	r := &record.Record{Scenario: s.Name, Command: o.command(s), Machine: measure.ThisMachine(), Start: time.Now().Round(time.Second)}
	env := &scenario.Env{Seconds: s.Seconds, Rounds: s.Rounds, Probes: o.probes, Profiles: o.profiles, Peers: o.peers}
	if o.seconds > 0 {
		env.Seconds = o.seconds
	}
	if o.rounds > 0 {
		env.Rounds = o.rounds
	}
	lines := json.NewEncoder(stdout)
	env.Emit = func(run record.Run) {
		r.Runs = append(r.Runs, run)
		_ = lines.Encode(run) // the record has it too
	}
	start := time.Now()
	env.Logf = func(format string, args ...any) {
		fmt.Fprintf(stderr, "bench: %4.0fs %s: %s\n", time.Since(start).Seconds(), s.Name, fmt.Sprintf(format, args...))
	}
	foreign, err := foreignCPU()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.Run(ctx, env), env.Close()); err != nil {
		return nil, err
	}
	after, err := foreignCPU()
	if err != nil {
		return nil, err
	}
	r.Seconds = time.Since(start).Seconds()
	r.OtherCPU = record.Number(max(0, (after-foreign).Seconds()/r.Seconds))
	return r, nil
}

// foreignCPU returns the processor time of all programs except this process and its ended children.
func foreignCPU() (time.Duration, error) {
	busy, err := measure.BusyCPU()
	if err != nil {
		return 0, err
	}
	own, err := measure.CPU()
	if err != nil {
		return 0, err
	}
	children, err := measure.ChildrenCPU()
	return busy - own - children, err
}

// command returns the command that repeats the measurement of a scenario.
func (o *options) command(s *scenario.Scenario) string {
	var text strings.Builder
	text.WriteString("go run -tags k8s136 ./cmd/bench -again -scenario " + s.Name)
	for _, f := range []struct {
		name  string
		value int
	}{{"seconds", o.seconds}, {"rounds", o.rounds}, {"probes", o.probes}} {
		if f.value > 0 {
			fmt.Fprintf(&text, " -%s %d", f.name, f.value)
		}
	}
	if s.Name == "targets" {
		for _, name := range slices.Sorted(maps.Keys(o.peers)) {
			fmt.Fprintf(&text, " -peer %s=PATH", name)
		}
	}
	return text.String()
}
