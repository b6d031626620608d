package docstest_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/probecmd"
)

// TestKubernetesFlagsExist parses the command lines of all pods and of their probes.
func TestKubernetesFlagsExist(t *testing.T) {
	atRoot(t)
	for name, template := range kubernetesTemplates(kubernetesResources(t, kubernetesComponents(t)...)) {
		c := &template.Spec.Containers[0]
		known := checkCommandLine(t, name, c.Args)
		for _, p := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p != nil {
				checkExec(t, name, p.Exec)
			}
		}
		for _, e := range c.Env {
			flag, ok := strings.CutPrefix(e.Name, "PROBER_")
			if ok && e.Name != "PROBER_SERVER" && known[flag] == nil {
				t.Errorf("%s: prober %s has no flag for %s", name, c.Args[0], e.Name)
			}
			if ok && known[flag] != nil && e.ValueFrom == nil {
				if err := known[flag].Value.Set(e.Value); err != nil {
					t.Errorf("%s: %s: %v", name, e.Name, err)
				}
			}
		}
	}
}

// checkCommandLine checks that a command of prober has the flags of a command line. It returns all flags of
// the command by the names of their variables.
func checkCommandLine(t *testing.T, where string, args []string) map[string]*pflag.Flag {
	t.Helper()
	return checkProgram(t, where, cli.Root(&command.Env{}), args)
}

// checkExec checks the command of an exec probe, which runs one of our programs.
func checkExec(t *testing.T, where string, action *v1.ExecAction) {
	t.Helper()
	switch action.Command[0] {
	case "/usr/bin/prober":
		checkCommandLine(t, where, action.Command[1:])
	case "/usr/bin/prober-probe": // starts quickly
		checkProgram(t, where, probecmd.Program(&command.Env{}), action.Command[1:])
	default:
		t.Errorf("%s: the image has no %s", where, action.Command[0])
	}
}

// checkProgram is checkCommandLine for the program root.
func checkProgram(t *testing.T, where string, root *cobra.Command, args []string) map[string]*pflag.Flag {
	t.Helper()
	command, rest, err := root.Find(args)
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err != nil || !command.HasParent() {
		t.Fatalf("%s: %s %q: %v", where, root.Name(), args, err)
	}
	known := make(map[string]*pflag.Flag)
	command.Flags().VisitAll(func(f *pflag.Flag) {
		known[strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(f.Name))] = f
	})
	return known
}
