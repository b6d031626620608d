package clientcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/cli/watch"
)

// newWatch returns the command watch.
func newWatch(env *command.Env) *cobra.Command {
	var agent remote.Flags
	var flags selectionFlags
	r := find("probes")
	c := &cobra.Command{
		Use:   "watch [NAME]... [KIND]",
		Short: "Show probes live, on the whole screen",
		Long: "Watch shows a table of probes that follows the agent: states, durations, the last 20 results,\n" +
			"pauses, and the output of the last attempt. It connects again when the agent restarts.\n" +
			"Without a terminal, or with TERM=dumb, it writes a line for each change of a state or of a pause.\n" +
			"NO_COLOR disables colors.\n\n" +
			"Keys: arrows or j k move, enter shows details, / filters, s sorts, p pauses, r resumes, t triggers an\nattempt, q quits.\n\n" +
			"Exit code 0, 3 if the agent does not respond at the start, 64 wrong usage.",
		Example:           "  prober watch\n  prober watch -l app=shop --state failure\n  prober watch 'shop-*' cart\n  prober watch shop/web | tee changes.log",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete(env, &agent, r),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := flags.selectionOf(r, args)
			if err != nil {
				return err
			}
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error { return watchProbes(ctx, env, c, s) })
		},
	}
	agent.Add(c)
	flags.add(c, r)
	completeNamespaces(c, env, &agent)
	return c
}

func watchProbes(ctx context.Context, env *command.Env, c *client.Client, s *selection) error {
	if _, err := c.Plugins(ctx); err != nil {
		return remote.Failed(err)
	}
	if err := s.resolve(ctx, c); err != nil {
		return remote.Failed(err)
	}
	cfg := watchConfig(env, c, s)
	if in, out, ok := terminal(env); ok {
		if err := watch.Screen(ctx, cfg, in, out); err != nil {
			return command.Failed(err)
		}
		return nil
	}
	if err := watch.Lines(ctx, cfg, env.Stdout, env.Stderr); err != nil {
		return command.Failed(err)
	}
	return nil
}

// terminal returns the terminal for the screen; nil if there is none.
func terminal(env *command.Env) (in, out *os.File, ok bool) {
	in, isFile := env.Stdin.(*os.File)
	out, alsoFile := env.Stdout.(*os.File)
	name, _ := env.LookupEnv("TERM")
	return in, out, isFile && alsoFile && name != "dumb" && term.IsTerminal(in.Fd()) && term.IsTerminal(out.Fd())
}

func watchConfig(env *command.Env, c *client.Client, s *selection) *watch.Config {
	noColor, _ := env.LookupEnv("NO_COLOR")
	cfg := &watch.Config{
		Server: c.Name(), Color: noColor == "", ASCII: !isUTF8(env.LookupEnv),
		Follow: func(ctx context.Context, connected func(), change func(watch.Change)) error {
			return followProbes(ctx, c, s, connected, change)
		},
		History: func(ctx context.Context, p *api.ProbeStatus) (api.ProbeStatus, error) {
			return c.Probe(ctx, filterFor(p))
		},
		Details: func(ctx context.Context, p *api.ProbeStatus) (string, error) {
			return watchDetails(ctx, env, c, filterFor(p))
		},
		Act: func(ctx context.Context, name string, p *api.ProbeStatus, pause string) (err error) {
			switch name {
			case "pause":
				_, err = c.Pause(ctx, filterFor(p), api.PauseRequest{For: pause})
			case "resume":
				_, err = c.Resume(ctx, filterFor(p))
			default:
				_, err = c.Trigger(ctx, filterFor(p))
			}
			return err
		},
	}
	if !c.MayAct() {
		cfg.ReadOnly = "actions over TCP need --token-file"
	}
	return cfg
}

// watchDetails returns the output of explain and describe for a probe.
func watchDetails(ctx context.Context, env *command.Env, c *client.Client, f client.Filter) (string, error) {
	var text bytes.Buffer
	x, err := c.Explain(ctx, f)
	if err == nil { // otherwise describe returns the reason
		if err := writeExplanation(&text, &x, isUTF8(env.LookupEnv)); err != nil {
			return "", err
		}
		text.WriteByte('\n')
	}
	of := *env
	of.Stdout = &text
	err = describe(ctx, &of, c, &selection{Filter: f})
	return text.String(), err
}

// filterFor returns the filter for one probe.
func filterFor(p *api.ProbeStatus) client.Filter {
	return client.Filter{Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind}
}

// isUTF8 reports whether the locale of the terminal has all characters.
func isUTF8(lookupEnv func(string) (string, bool)) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale, _ := lookupEnv(name); locale != "" {
			return strings.Contains(strings.ReplaceAll(strings.ToLower(locale), "-", ""), "utf8")
		}
	}
	return false
}

// followProbes is the Follow of a [watch.Config].
func followProbes(ctx context.Context, c *client.Client, s *selection, connected func(), change func(watch.Change)) error {
	if err := s.match(ctx, c); err != nil {
		return err
	}
	if _, err := c.Plugins(ctx); err != nil { // the stream of an agent without pods may be silent
		return err
	}
	connected()
	return c.Stream(ctx, func(event string, data []byte) error {
		if event == "pod" && s.selector != nil {
			var p struct {
				v1.Pod
				Removed bool `json:"removed"`
			}
			if err := json.Unmarshal(data, &p); err != nil {
				return err
			}
			s.label(&p.Pod, p.Removed)
		}
		if event != "probe" {
			return nil
		}
		var p struct {
			api.ProbeStatus
			Removed bool `json:"removed"`
		}
		if err := json.Unmarshal(data, &p); err != nil {
			return err
		}
		change(watch.Change{Probe: p.ProbeStatus, Removed: p.Removed || !s.selects(&item{object: &p.ProbeStatus})})
		return nil
	})
}
