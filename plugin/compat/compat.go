// Package compat compares two versions of a plugin, and decides which part of the version must be raised.
//
// Start at [Compare]. It is a pure function of the manifests and imports: schema.go and rules.go compare the schemas
// of configs, in the form that expand.go makes, and ask oracle.go for the values that hosts accept; manifest.go compares everything else.
package compat

import (
	"fmt"

	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin"
)

// Area is the part of a plugin that a change is about.
type Area string

// The areas.
const (
	Config  Area = "config"
	Metrics Area = "metrics"
	Grants  Area = "grants" // requested capabilities
	Runtime Area = "runtime"
	ABI     Area = "abi"
)

// Change is one difference between two versions that their users may notice.
type Change struct {
	Area    Area           `json:"area"`
	Field   string         `json:"field"` // such as config.maxLag
	Message string         `json:"message"`
	Level   semantic.Level `json:"level"` // that the change needs
}

// Breaking reports whether users of the old version must change something, such as a config or a grant.
func (c Change) Breaking() bool { return c.Level == semantic.Major }

// String returns "FIELD: message".
func (c Change) String() string { return c.Field + ": " + c.Message }

// Side is one of the compared versions.
type Side struct {
	Manifest *plugin.Manifest
	// Imports are the imported functions by module; nil for a program.
	Imports map[string][]string
}

// Compare returns the changes from one version of a plugin to the next, the breaking ones of each area first. It
// takes a few seconds at most: schemas that need more work are a breaking change, as [Schemas] describes.
func Compare(old, next Side) []Change {
	var all []Change
	for _, changes := range [][]Change{
		identity(old.Manifest, next.Manifest), Schemas(old.Manifest.Config, next.Manifest.Config),
		metrics(old.Manifest.Metrics, next.Manifest.Metrics), requests(old.Manifest.Requests, next.Manifest.Requests),
		imports(old.Imports, next.Imports),
	} {
		for _, breaking := range []bool{true, false} {
			for _, c := range changes {
				if c.Breaking() == breaking {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// Verdict is the consequence of changes for a version.
type Verdict struct {
	From   string         `json:"from"`
	To     string         `json:"to"`
	Needed semantic.Level `json:"needed"` // by the changes
	Raised semantic.Level `json:"raised"` // from From to To
}

// Judge returns the verdict about changes between two versions.
func Judge(from, to string, changes []Change) Verdict {
	v := Verdict{From: from, To: to, Raised: semantic.Raised(from, to)}
	for _, c := range changes {
		v.Needed = max(v.Needed, c.Level)
	}
	return v
}

// Err returns an error if the changes are breaking, and the version permits no breaking change.
func (v Verdict) Err() error {
	if v.Needed != semantic.Major || v.Raised == semantic.Major {
		return nil
	}
	if !semantic.Valid(v.From) || !semantic.Valid(v.To) {
		return fmt.Errorf("breaking changes from %.40q to %.40q, of which one is not a semantic version", v.From, v.To)
	}
	return fmt.Errorf("breaking changes from %.40s to %.40s need %s", v.From, v.To, semantic.Next(v.From, v.Needed))
}

// Hint returns a sentence for a version that should be raised further, "" if it need not be.
func (v Verdict) Hint() string {
	if v.Err() != nil || v.Needed != semantic.Minor || v.Raised >= semantic.Minor || !semantic.Valid(v.From) {
		return ""
	}
	return fmt.Sprintf("additions since %.40s suggest %s", v.From, semantic.Next(v.From, semantic.Minor))
}
