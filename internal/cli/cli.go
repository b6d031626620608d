// Package cli is prober's command line: [Main] runs one command and returns the exit code. Read cli.go
// first; each other file is one command of prober. plugincmd has the commands below `prober plugin`,
// probecmd the commands below `prober probe`, and program the common parts.
package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/clientcmd"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/importcmd"
	"github.com/daeace23/prober/internal/cli/maintenancecmd"
	"github.com/daeace23/prober/internal/cli/plugincmd"
	"github.com/daeace23/prober/internal/cli/probecmd"
	"github.com/daeace23/prober/internal/cli/program"
	"github.com/daeace23/prober/internal/cli/pushcmd"
	"github.com/daeace23/prober/internal/cli/sidecarcmd"
	"github.com/daeace23/prober/internal/cli/simulatecmd"
)

// OS returns the Env of this process.
func OS() command.Env { return command.OS(program.Version) }

// Main runs the command in env.Args and returns the exit code.
func Main(env command.Env) int { return program.Main(&env, Root(&env)) }

// Root returns the command prober, with all of its commands.
func Root(env *command.Env) *cobra.Command {
	root := &cobra.Command{
		Use:     "prober",
		Short:   "Probe containers as the kubelet does, with handlers of your own",
		Long:    "Prober runs the kubelet's liveness, readiness and startup probes. Sandboxed plugins add other\nkinds of checks.",
		Example: "  prober run -f pod.yaml --plugins /etc/prober/plugins\n  prober probe http http://127.0.0.1:8080/healthz --explain\n  prober plugin new demo --lang go",
	}
	commands := append(clientcmd.New(env), pushcmd.New(env), simulatecmd.New(env), maintenancecmd.New(env), newRun(env), newNode(env), probecmd.New(env, plugincmd.NewProbe(env)), newValidate(env), newSchema(env),
		importcmd.New(env, checkFile(env)), newAgentLoss(env), newController(env), clientcmd.NewKubectl(env), plugincmd.New(env),
		sidecarcmd.New(env, program.Revision()))
	program.New(env, root, commands...)
	group(root)
	for path, words := range otherNames {
		if c, _, err := root.Find(strings.Fields(path)); err == nil {
			c.SuggestFor = words
		}
	}
	return root
}

// groups are the groups of commands in the help.
var groups = []struct {
	id, title string
	commands  []string
}{
	{"run", "Run and check:", []string{"run", "validate", "probe", "import", "schema"}},
	{"look", "Look at a running agent:", []string{"get", "status", "describe", "explain", "watch", "report", "page", "advise", "simulate"}},
	{"act", "Act on a running agent:", []string{"trigger", "pause", "resume", "force", "unforce", "maintenance", "note", "push", "reload", "notify"}},
	{"plugins", "Author plugins:", []string{"plugin"}},
	{"kubernetes", "Kubernetes:", []string{"node", "sidecar", "agent-loss", "controller", "kubectl"}},
}

// group sorts the commands of root into the groups.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.id
			}
		}
	}
}

// otherNames are the words of other programs for a command.
var otherNames = map[string][]string{
	"run":               {"start", "serve", "server", "agent", "daemon", "apply", "up"},
	"validate":          {"lint", "check", "config", "test-config", "configtest", "check-config"},
	"probe http":        {"check", "curl", "wget", "ping", "once"},
	"get probes":        {"list", "ls", "checks", "all", "list-probes"},
	"get pods":          {"ps", "container", "containers", "process", "processes"},
	"get events":        {"logs", "log", "journal", "tail"},
	"get targets":       {"host", "hosts", "discovery"},
	"get endpoints":     {"service", "services", "svc", "pushes"},
	"get slos":          {"objectives", "budget", "error-budget", "budgets"},
	"get notifications": {"alert", "alerts", "alarms"},
	"describe":          {"show", "info", "view", "cat", "details"},
	"explain":           {"why", "debug", "diagnose"},
	"status":            {"health", "healthy", "summary", "state", "is-active"},
	"watch":             {"top", "monitor", "follow", "dashboard", "live"},
	"report":            {"history", "uptime", "availability", "sla", "stats", "reports"},
	"page export":       {"public", "publish", "html", "badge", "badges", "status-page"},
	"advise":            {"tune", "suggest", "recommend", "optimize"},
	"trigger":           {"recheck", "retry", "rerun", "fire", "now", "reschedule"},
	"pause":             {"stop", "silence", "silences", "ack", "acknowledge", "mute", "disable", "suspend", "snooze", "downtime", "halt", "inhibit"},
	"resume":            {"start", "unpause", "unsilence", "unmute", "enable", "continue", "unack"},
	"force":             {"drain", "cordon", "override", "down", "up", "fail"},
	"unforce":           {"undrain", "uncordon"},
	"reload":            {"restart", "refresh", "sighup", "hup"},
	"notify test":       {"test-notification", "send"},
	"plugin new":        {"init", "create", "scaffold"},
}
