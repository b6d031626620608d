package prober_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
)

// TestKubernetesFlagsExist parses the command lines of all pods and of their probes.
func TestKubernetesFlagsExist(t *testing.T) {
	for name, template := range kubernetesTemplates(kubernetesResources(t, kubernetesComponents(t)...)) {
		c := &template.Spec.Containers[0]
		known := checkCommandLine(t, name, c.Args)
		for _, p := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p != nil {
				checkCommandLine(t, name, p.Exec.Command[1:])
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

// checkCommandLine checks that a command has the flags of a command line. It returns all flags of the
// command by the names of their variables.
func checkCommandLine(t *testing.T, where string, args []string) map[string]*pflag.Flag {
	t.Helper()
	command, rest, err := cli.Root(&command.Env{}).Find(args)
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err != nil || !command.HasParent() {
		t.Fatalf("%s: prober %q: %v", where, args, err)
	}
	known := make(map[string]*pflag.Flag)
	command.Flags().VisitAll(func(f *pflag.Flag) {
		known[strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(f.Name))] = f
	})
	return known
}
