// Package simulatecmd has the command simulate, which says who would have been notified of what with another
// prober.yaml. Read simulate.go first; gather.go gets the changes, and output.go writes the messages.
package simulatecmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/timespan"
	"github.com/daeace23/prober/internal/whatif"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

// simulation is one call of the command.
type simulation struct {
	env           *command.Env
	file, compare string
	filter        client.ReportFilter
	outages       []string      // patterns of probes that fail
	lasts         time.Duration // of the outage
	messages      bool
	output        string
}

const long = `Simulate replays the changes of the states of probes, from the history of an agent, through the receivers
of a prober.yaml, and says who would have got which messages. It sends nothing, and changes nothing.

If a group of targets has other thresholds or another period in that file, the changes are those that they
would have made of the same failures, as far as the history tells: failures that were too short for the
thresholds of the agent are not in it.

With --outage, it makes up a failure of the probes that the agent has now, instead of the history.

The agent must run with --state-dir, except for --outage.

Exit code 0, 1 if the file has errors or there is no history, 3 if the agent does not respond, 64 wrong usage.`

// New returns the command.
func New(env *command.Env) *cobra.Command {
	s := simulation{env: env}
	var agent remote.Flags
	c := &cobra.Command{
		Use:   "simulate --config FILE",
		Short: "Show who would have been notified with another prober.yaml",
		Long:  long,
		Example: "  prober simulate --config new.yaml --compare /etc/prober/prober.yaml\n  prober simulate --config new.yaml --since 7d --messages\n" +
			"  prober simulate --config new.yaml --outage 'shop-*' --lasts 20m",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.file == "" {
				return command.Usage("prober simulate --config prober.yaml", "--config is required: the prober.yaml to try")
			}
			if s.lasts <= 0 {
				return command.Usage("", "--lasts must be positive")
			}
			if err := s.localTimes(time.Now()); err != nil {
				return err
			}
			asked, err := agent.Client(env)
			if err != nil {
				return err
			}
			ctx, stop := env.Interruptible(cmd.Context())
			defer stop()
			return s.run(ctx, asked)
		},
	}
	agent.Add(c)
	f := c.Flags()
	command.FileFlag(c, &s.file, "", "config", "", "the prober.yaml to try")
	command.FileFlag(c, &s.compare, "", "compare", "", "another prober.yaml, such as the present one, to compare with")
	f.StringVar(&s.filter.Since, "since", "30d", "start: a duration before now such as 30d or 12h, or a date or time such as 2026-01-02 15:04")
	f.StringVar(&s.filter.Until, "until", "", "end, in the format of --since (default: now)")
	f.StringArrayVar(&s.outages, "outage", nil, "make up a failure of these probes: a pattern of pods, NAMESPACE/POD, targets or their groups")
	f.DurationVar(&s.lasts, "lasts", 10*time.Minute, "how long the failure of --outage lasts")
	f.BoolVar(&s.messages, "messages", false, "list the messages")
	command.OutputFlag(c, &s.output, command.Table, command.JSON, command.YAML)
	return c
}

// localTimes reads dates and times without a zone in the zone of this host.
func (s *simulation) localTimes(now time.Time) error {
	for _, f := range []struct {
		name string
		text *string
	}{{"since", &s.filter.Since}, {"until", &s.filter.Until}} {
		if *f.text == "" {
			continue
		}
		at, err := timespan.Local(*f.text, now)
		if err != nil {
			return command.Usage("", "--%s %w", f.name, err)
		}
		if _, err := timespan.Parse(*f.text); err != nil { // it is no duration
			*f.text = at.Format(time.RFC3339Nano)
		}
	}
	return nil
}

// plan is a prober.yaml to simulate.
type plan struct {
	file   string
	config *config.Agent
	specs  map[string]probe.Spec // by group of targets
}

func load(file string) (*plan, error) {
	cfg, err := config.Load(file)
	if err == nil && cfg.Notify == nil {
		err = fmt.Errorf("%s: notify: there are no receivers, so that nobody is notified", file)
	}
	var specs map[string]probe.Spec
	if err == nil {
		specs, err = targets.Specs(file, cfg)
	}
	if err == nil {
		err = errors.Join(notify.Check(file, cfg.Notify)...)
	}
	if err != nil {
		return nil, command.Failed(err)
	}
	return &plan{file, cfg, specs}, nil
}

// outcome is what a plan would have made of the changes.
type outcome struct {
	plan     *plan
	failures int
	changes  []api.StateChange
	messages []*format.Message
}

func (s *simulation) run(ctx context.Context, c *client.Client) error {
	files := []string{s.file}
	if s.compare != "" {
		files = append(files, s.compare)
	}
	var plans []*plan
	for _, file := range files {
		p, err := load(file)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	known, err := gather(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	for _, p := range plans {
		for _, x := range p.config.EmptySelectors(time.Now(), known.facts()) {
			s.env.Warn("%s", explain.OneLine(x.Empty(p.file, "of the agent")))
		}
	}
	var changes []api.StateChange
	head := api.StateChanges{}
	if len(s.outages) > 0 {
		head, changes, err = s.madeUp(known)
	} else {
		head, err = c.Changes(ctx, s.filter, func(c *api.StateChange) error { changes = append(changes, *c); return nil })
		err = remote.Failed(err)
	}
	if err != nil {
		return err
	}
	var all []outcome
	for _, p := range plans {
		o := outcome{plan: p, changes: known.with(p, changes)}
		for _, group := range known.loosened(p) {
			fmt.Fprintf(s.env.Stderr, "%s: group %s has a smaller threshold or period than the agent: failures that were too short for the agent are missing here\n", p.file, group)
		}
		for i := range o.changes {
			if c := &o.changes[i]; c.To == "failure" {
				o.failures++
			}
		}
		o.messages = whatif.Messages(p.config, o.changes, head.Until, func(pod string) map[string]string { return known.labels[pod] })
		all = append(all, o)
	}
	return s.write(&head, all)
}
