// Package pushcmd has the command push, which reports results to an agent. Read pushcmd.go first. deliver.go
// sends a report again while the agent does not accept it, url.go sends one to a push URL, job.go runs a
// command and job_report.go describes its end, output.go passes its output through, and nsca.go sends lines
// of stdin.
package pushcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/clip"
)

// push is one call of the command.
type push struct {
	env   *command.Env
	agent remote.Flags

	url, result, message  string
	started, nagios, nsca bool
	timeout, retry        time.Duration

	name string   // of the check; "" with a URL
	argv []string // the command to run; nil for none
}

const (
	defaultRetry = time.Minute
	// maxMessage is the maximum length of a message in bytes.
	maxMessage = 10 << 10
	// urlVariable is the environment variable of --url.
	urlVariable = "PROBER_PUSH_URL"
)

// The words of --result.
const (
	success = "success"
	warning = "warning"
	failure = "failure"
	unknown = "unknown"
)

const long = `Push reports a result to a check of the section push in prober.yaml.

With -- CMD, it reports that a run has begun, runs the command and reports its end: exit code 0 is a
success, all others are failures. The command has stdin, stdout and stderr of prober, and gets its
SIGTERM, SIGINT and SIGHUP. The last line of the output is the message. No report delays the command.
With --timeout, the command has a process group of its own, which cannot read from a terminal.

A report is sent again for the time of --retry if the agent does not respond, or answers with a
status of 5xx or 429. --started is not sent again.

With --nsca, stdin has lines such as those of send_nsca: [HOST<TAB>]NAME<TAB>CODE<TAB>OUTPUT, with a
code from 0 to 3.

--url is for hosts without access to the API. It is a secret, and so rather in the environment
variable PROBER_PUSH_URL. Redirects are not followed, and no proxy is used.

Exit code 0, 1 if the report was refused, 3 if the agent does not respond, 64 wrong usage. With -- CMD
the exit code of the command, 128 + n if signal n ended it, 127 if it was not found, and 126 if it
cannot be run, whether or not the report was delivered.`

// New returns the command.
func New(env *command.Env) *cobra.Command {
	p := &push{env: env}
	c := &cobra.Command{
		Use:   "push [NAME] [-- CMD ARG...]",
		Short: "Report a result to a check, or run a command and report its end",
		Long:  long,
		Example: "  prober push backup -- /usr/local/bin/backup.sh --all\n" +
			"  prober push backup --result failure --message 'the disk is full'\n" +
			"  prober push load --nagios --timeout 30s -- /usr/lib/nagios/plugins/check_load\n" +
			"  prober push --nsca < results",
		ValidArgsFunction: p.complete(),
		RunE:              p.run,
	}
	p.agent.Add(c)
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&p.url, "url", "", "push URL, https://HOST/push/TOKEN, in place of NAME (default: "+urlVariable+")")
	p.result = success
	f.Var(command.OneOf(&p.result, success, warning, failure, unknown), "result", "result to report")
	f.StringVar(&p.message, "message", "", "message of the result")
	f.BoolVar(&p.started, "started", false, "report that a run has begun")
	f.BoolVar(&p.nagios, "nagios", false, "the command is a plugin of Nagios: report its exit code from 0 to 3 as success, warning, failure or unknown, and its first line")
	f.BoolVar(&p.nsca, "nsca", false, "report the lines of stdin, as send_nsca does")
	f.DurationVar(&p.timeout, "timeout", 0, "kill the command and the rest of its process group after this time, and report a failure; 0 for no limit")
	f.DurationVar(&p.retry, "retry", defaultRetry, "how long a report is sent again while the agent does not accept it; 0 for one attempt")
	f.VisitAll(command.NotFromEnv) // a script of the host may use such variables itself
	c.Flags().AddFlagSet(f)
	return c
}

// complete returns the completion of NAME. The words of the command are completed as files.
func (p *push) complete() cobra.CompletionFunc {
	names := p.agent.Complete(p.env, func(ctx context.Context, c *client.Client, _ *cobra.Command, _ []string) (names []string) {
		probes, err := c.Probes(ctx, client.Filter{Handler: "push"})
		if err != nil {
			return nil
		}
		for i := range probes {
			names = append(names, probes[i].Pod)
		}
		return names
	})
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return names(cmd, args, word)
	}
}

func (p *push) run(cmd *cobra.Command, args []string) error {
	if err := p.parse(cmd, args); err != nil {
		return err
	}
	send, err := p.destination()
	switch {
	case p.argv != nil:
		if err != nil { // a missing file of a token does not keep the command from its work
			send = func(context.Context, client.PushReport) error { return err }
		}
		return p.runCommand(cmd.Context(), send)
	case err != nil:
		return err
	case p.nsca:
		return p.sendLines(cmd.Context())
	}
	ctx, stop := p.env.Interruptible(cmd.Context())
	defer stop()
	report, retry := client.PushReport{Result: p.result, Message: clip.Text(p.message, maxMessage)}, p.retry
	if p.started {
		report, retry = client.PushReport{Started: true}, 0
	}
	return p.failed(deliver(ctx, ctx, retry, func(ctx context.Context) error { return send(ctx, report) }))
}

// parse reads the arguments and flags.
func (p *push) parse(cmd *cobra.Command, args []string) error {
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		args, p.argv = args[:at], args[at:]
		if len(p.argv) == 0 {
			return command.Usage("prober push backup -- /usr/local/bin/backup", "push: a command is required after --")
		}
	}
	if len(args) > 1 {
		return command.Usage("write the command after --: "+command.Quote(append([]string{"prober", "push", args[0], "--"}, args[1:]...)), "push: want one NAME, got %s", command.Count(len(args), "argument"))
	}
	if err := p.conflicts(cmd.Flags()); err != nil {
		return err
	}
	if p.nsca {
		if len(args) > 0 || p.url != "" {
			return command.Usage("", "--nsca: the lines of stdin have the names")
		}
		return nil
	}
	return p.parseName(args)
}

// parseName reads NAME, or the URL in place of it.
func (p *push) parseName(args []string) error {
	switch {
	case len(args) == 0 && p.url == "":
		if p.url, _ = p.env.LookupEnv(urlVariable); p.url == "" {
			return command.Usage("prober push backup, or prober push backup -- /usr/local/bin/backup", "push: NAME, --url or %s is required", urlVariable)
		}
	case len(args) > 0 && p.url != "":
		return command.Usage("", "--url: NAME is not possible, since the URL selects the check")
	case len(args) > 0:
		p.name = args[0]
		if problems := validation.IsDNS1123Label(p.name); len(problems) > 0 { // it is a segment of a path
			return command.Usage("", "push %q: must be a DNS label, the name of a check in prober.yaml", p.name)
		}
	}
	return nil
}

// conflicts returns the error of flags that do not fit together.
func (p *push) conflicts(flags *pflag.FlagSet) error {
	if p.timeout < 0 || p.retry < 0 {
		return command.Usage("", "--timeout and --retry must not be negative")
	}
	for _, c := range []struct {
		form  string
		is    bool
		flags []string // that it does not have
	}{
		{"-- CMD", p.argv != nil, []string{"result", "message", "started", "nsca"}},
		{"a report without a command", p.argv == nil, []string{"nagios", "timeout"}},
		{"--started", p.started, []string{"result", "message", "nsca"}},
		{"--nsca", p.nsca, []string{"result", "message"}},
	} {
		for _, name := range c.flags {
			if c.is && flags.Changed(name) {
				return command.Usage("", "--%s: not possible for %s", name, c.form)
			}
		}
	}
	return nil
}

// destination returns the function that sends a report to the check.
func (p *push) destination() (sender, error) {
	if p.url != "" {
		return p.urlSender()
	}
	c, err := p.agent.Client(p.env)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r client.PushReport) error { return c.Push(ctx, p.name, r) }, nil
}
