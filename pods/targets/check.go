package targets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/pods"
)

// Check checks the targets of a prober.yaml and its files, and asks no service, name server and command.
// others are the pods that are no targets. check is called with a pod of each group. The error joins one
// for each problem, also for each target that would be dropped for another reason than a rule.
func Check(ctx context.Context, configFile string, others []*v1.Pod, check func(*v1.Pod) []error) error {
	s := New(Config{ConfigFile: configFile, Logger: slog.New(slog.DiscardHandler), offline: true})
	if _, err := s.Generate(ctx, true, others, check); err != nil {
		return err
	}
	all := s.Targets()
	var errs []error
	for _, source := range all.Sources {
		if source.Err != nil {
			errs = append(errs, joined.Errors(source.Err)...)
		}
	}
	for i := range all.Items {
		t := &all.Items[i]
		if t.State != pods.TargetDropped || strings.HasPrefix(t.Reason, byRule) {
			continue
		}
		_, place, _ := strings.Cut(t.Source, " ") // the other sources were not asked
		errs = append(errs, &yamlpos.Error{File: place, Err: fmt.Errorf("target %q of group %s: %s", t.Address, t.Group, t.Reason)})
	}
	return errors.Join(errs...)
}
