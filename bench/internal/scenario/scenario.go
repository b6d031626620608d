// Package scenario defines the measurements by name, and their presentation in docs/performance.md.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/bench/internal/attempt"
	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/load"
	"github.com/daeace23/prober/bench/internal/parts"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/schedule"
	"github.com/daeace23/prober/bench/internal/target"
)

// Scenario is one measurement, and a section of the document.
type Scenario struct {
	Name   string // name of the record
	Title  string
	Text   string // describes the measurement, in the document
	Rounds int
	// Seconds is the length of one measurement of one subject in one round.
	Seconds int
	Run     func(ctx context.Context, e *Env) error

	Columns []Column
	// BySubject makes a column of each subject in place of a row. The scenario has one figure and no ratio.
	BySubject bool
	Ratio     string // figure whose ratio to Peer's is shown; "": none
	Peer      string // subject
	Limit     string // subject with the least possible work; "": none
	Goals     []Goal
	// Why explains, by a profile, why prober does not meet a goal. It is shown if a goal is not met.
	Why   string
	Plots []Plot
}

// Column is a figure of a table.
type Column struct {
	Figure string
	Head   string // with the unit
}

// Goal is a limit of a figure of a subject.
type Goal struct {
	Text    string // such as "CPU ≤ 0.5 × the kubelet's"
	Figure  string
	Subject string
	Over    string // subject by whose figure it is divided; "": none
	Params  []record.Param
	AtMost  float64
}

// Plot is a chart of one figure.
type Plot struct {
	Title  string
	Figure string
	// X is the parameter of the horizontal axis, a number; both axes are logarithmic then. ""
	// makes one bar for each row.
	X string
}

// Env is the environment of a scenario.
type Env struct {
	Seconds int
	Rounds  int
	Probes  int // maximum number of probes of a load, for a quick run; 0: no limit
	// Peers are programs of others by name; see [CheckPeers].
	Peers map[string]string
	// Profiles is the folder for profiles of managers under load; "": none.
	Profiles string
	Emit     func(record.Run)     // records a run
	Logf     func(string, ...any) // shows progress
	programs string               // folder of our programs; "": none is built
	cleanup  func() error         // removes it
	server   *target.Server       // nil until it is needed
}

// Jobs are the jobs of child processes.
func Jobs() map[string]child.Job {
	return map[string]child.Job{
		target.Job: target.Serve, attempt.JobName: attempt.Serve, attempt.PluginJob: attempt.ServePlugins, attempt.EndlessJob: attempt.ServeEndless, load.JobName: load.Serve, schedule.JobName: schedule.Serve,
		parts.SeriesJob: parts.ServeSeries, parts.ResultsJob: parts.ServeResults,
	}
}

// All returns the scenarios in the order of the document.
func All() []Scenario {
	return slices.Concat(attempts(), []Scenario{start(), plugins(), folder(), endless(), targets(), bulk()}, managers(), []Scenario{hanging(), series(), scrape(), stream(), reader(), scale()})
}

// Find returns the scenarios with the given names. A name may be a group: "peers" has all scenarios but
// scale.
func Find(names []string) (found []Scenario, err error) {
	all := All()
	for _, name := range names {
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
		switch {
		case name == "peers":
			found = append(found, slices.DeleteFunc(slices.Clone(all), func(s Scenario) bool { return s.Name == "scale" })...)
		case i >= 0:
			found = append(found, all[i])
		default:
			var known []string
			for _, s := range all {
				known = append(known, s.Name)
			}
			return nil, fmt.Errorf("unknown scenario %q; known: peers, %s", name, strings.Join(known, ", "))
		}
	}
	return found, nil
}

// Close ends the servers of the scenarios, and removes their programs.
func (e *Env) Close() error {
	var err error
	if e.server != nil {
		err = e.server.Close()
	}
	if e.cleanup != nil {
		err = errors.Join(err, e.cleanup())
	}
	return err
}

// target returns the servers, and starts them at the first call.
func (e *Env) target(ctx context.Context) (_ *target.Server, err error) {
	if e.server == nil {
		e.server, err = target.Start(ctx)
	}
	return e.server, err
}

// program returns the path of one of our programs, and builds it at the first call.
func (e *Env) program(ctx context.Context, name string) (string, error) {
	if e.programs == "" {
		dir, err := os.MkdirTemp("", "prober-bench")
		if err != nil {
			return "", err
		}
		e.programs, e.cleanup = dir, func() error { return os.RemoveAll(dir) }
	}
	path := filepath.Join(e.programs, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	e.Logf("building %s", name)
	return path, build(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/"+name)
}

// build runs a command in the folder of prober.
func build(ctx context.Context, command ...string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/daeace23/prober").Output()
	if err != nil {
		return fmt.Errorf("find the folder of prober, from a folder of bench: %w", err)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}

// size returns the number of probes of a load.
func (e *Env) size(probes int) int {
	if e.Probes > 0 {
		return min(probes, e.Probes)
	}
	return probes
}

// emit records the figures of a subject, or an error.
func (e *Env) emit(subject string, round int, params []record.Param, figures map[string]record.Number, err error) {
	r := record.Run{Subject: subject, Params: params, Round: round, Figures: figures}
	if err != nil {
		r.Error = err.Error()
	}
	e.Emit(r)
}

// param returns one parameter.
func param(name string, value any) []record.Param {
	return []record.Param{{Name: name, Value: fmt.Sprint(value)}}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
