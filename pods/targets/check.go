package targets

import (
	"errors"
	"fmt"
	"strings"

	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/pods"
)

// problems returns an error for each list that cannot be read, and for each target that cannot be probed.
func (l *listing) problems() error {
	var errs []error
	for _, f := range l.fetchers {
		if f != nil && f.err != nil {
			errs = append(errs, joined.Errors(f.err)...)
		}
	}
	return errors.Join(append(errs, l.result.problems())...)
}

// static returns an error for each static target of prober.yaml that cannot be probed.
func static(groups []compiled, names taken) error {
	var lists []list
	for _, g := range groups {
		for _, spec := range g.sources {
			if spec.key == "" {
				lists = append(lists, list{g.group, spec.label, spec.static})
			}
		}
	}
	return build(lists, nil, names).problems()
}

// problems returns an error for each target that is dropped for another reason than a relabel rule.
func (r *result) problems() error {
	var errs []error
	for i := range r.targets {
		t := &r.targets[i]
		if t.State == pods.TargetDropped && !strings.HasPrefix(t.Reason, byRule) {
			_, place, _ := strings.Cut(t.Source, " ")
			errs = append(errs, &yamlpos.Error{File: place, Err: fmt.Errorf("target %q of group %s: %s", t.Address, t.Group, t.Reason)})
		}
	}
	return errors.Join(errs...)
}
