package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/nearest"
)

// listsProbes is the hint for names that no probe has.
const listsProbes = "prober get probes lists them"

// maxNear is the maximum number of similar names in a hint.
const maxNear = 4

// missing are the errors of a command that goes on after an error, such as the names that nothing has.
type missing struct {
	errs []error
	hint string
}

// exit returns the error of the command; nil if there are no errors.
func (m *missing) exit() error {
	err := remote.Failed(errors.Join(m.errs...))
	if e, ok := errors.AsType[*command.Exit](err); ok && e.Hint == "" {
		e.Hint = m.hint
	}
	return err
}

// missing returns the errors of the names that no probe has.
func (s *selection) missing(ctx context.Context, c *client.Client) *missing {
	m := &missing{}
	var absent []string
	for _, w := range s.words {
		if !w.exists {
			m.errs = append(m.errs, fmt.Errorf("no probe of %s%s", w.text(s), s.whyNone(ctx, c, w)))
			absent = append(absent, w.word)
		}
	}
	if len(absent) == 0 {
		return m
	}
	m.hint = listsProbes
	if probes, err := c.Probes(ctx, client.Filter{Namespace: s.Namespace}); err == nil {
		var names []string
		for i := range probes {
			names = append(names, probes[i].Pod, probes[i].Pod+"/"+probes[i].Container)
		}
		m.near(absent, names, "probes")
	}
	return m
}

// near makes the hint name the names that are similar to the absent ones. The command get of the resource lists all.
func (m *missing) near(absent, names []string, resource string) {
	slices.Sort(names)
	var similar []string
	for _, a := range absent {
		for _, n := range slices.Compact(names) {
			if n != "" && (strings.HasPrefix(n, a) || strings.HasPrefix(a, n+"/") || nearest.Name(a, []string{n}) != "") {
				similar = append(similar, line(n))
			}
		}
	}
	if len(similar) > 0 {
		m.hint = fmt.Sprintf("did you mean %s? prober get %s lists them", strings.Join(similar[:min(len(similar), maxNear)], ", "), resource)
	}
}
