package plugincmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// skipFlag adds --skip-check. No variable sets it, since it would skip checks for all commands unseen.
func skipFlag(c *cobra.Command, skip *bool, help string) {
	c.Flags().BoolVar(skip, "skip-check", false, help)
	command.NotFromEnv(c.Flags().Lookup("skip-check"))
}

// checkedArtifact checks the plugin found before its push to ref, and returns its artifact a with the report.
func checkedArtifact(ctx context.Context, env *command.Env, c *oci.Client, ref plugin.Reference, found plugin.Found, a *oci.Artifact, skip bool) (*oci.Artifact, error) {
	m := a.Manifest
	report := &checkReport{Name: m.Name, Version: m.Version, Prober: env.Version, Skipped: true}
	if !skip {
		previous, err := pushedBefore(ctx, c, ref, m)
		if err != nil {
			return nil, err
		}
		k := &checking{env: env, found: found, sandboxed: true}
		if report, err = k.passed(ctx, previous, "nothing was pushed; --skip-check pushes it anyway"); err != nil {
			return nil, err
		}
	}
	report.Digest = plugin.Digest(a.Module) // the manifest may have been put inside
	data, err := report.attached()
	if err != nil {
		return nil, command.Failed(err)
	}
	return a.WithReport(data)
}

// checkSigned checks a module before it is signed.
func checkSigned(ctx context.Context, env *command.Env, f plugin.Found, skip bool) error {
	k := &checking{env: env, found: f, sandboxed: true}
	if skip || f.Manifest == nil || !k.isModule() {
		return nil
	}
	_, err := k.passed(ctx, nil, "it was not signed; --skip-check signs it anyway")
	return err
}

// passed runs the check. If the plugin does not pass, it prints the report to stderr and returns an error.
func (k *checking) passed(ctx context.Context, previous *previousVersion, hint string) (*checkReport, error) {
	report, err := k.run(ctx, previous)
	if err != nil || report.OK {
		return report, err
	}
	return nil, cmp.Or(report.print(k.env.Stderr), report.exit(hint))
}

// withReportBeside returns a with the report beside the file or folder at path, if it is about a's module.
func withReportBeside(a *oci.Artifact, path string) (*oci.Artifact, error) {
	path, err := plugin.Locate(path)
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	data, err := regular.Read(path+oci.ReportSuffix, oci.MaxReport)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	var r checkReport
	if json.Unmarshal(data, &r) != nil || r.Digest != plugin.Digest(a.Module) {
		return a, nil
	}
	return a.WithReport(data)
}

// replaceReport writes the report of the plugin at path beside it, or removes the one that is there.
func replaceReport(path string, report []byte) error {
	path += oci.ReportSuffix
	if report != nil {
		return regular.ReplaceBytes(path, 0o644, report)
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// claim is the report of a check that came with a plugin. Whoever packed the plugin may have written it.
type claim struct {
	State  string       `json:"state"` // passed, failed, skipped, unreadable, or other for a report about other bytes
	Report *checkReport `json:"report,omitempty"`
}

// claimedReport returns the report in the artifact or beside the file of f, nil if there is none.
func claimedReport(f plugin.Found) *claim {
	data := f.Report
	if data == nil && !strings.HasPrefix(f.Path, plugin.OCIScheme) {
		var err error
		if data, err = regular.Read(f.Path+oci.ReportSuffix, oci.MaxReport); err != nil {
			return nil
		}
	}
	if data == nil {
		return nil
	}
	var r checkReport
	if err := json.Unmarshal(data, &r); err != nil {
		return &claim{State: "unreadable"}
	}
	c := &claim{State: "failed", Report: &r}
	switch {
	case r.Digest != f.Digest:
		c.State = "other"
	case r.Skipped:
		c.State = "skipped"
	case r.OK:
		c.State = "passed"
	}
	return c
}

// String returns the claim for people.
func (c *claim) String() string {
	if c == nil {
		return ""
	}
	switch c.State {
	case "passed":
		return fmt.Sprintf("passed with prober %s, says its author", c.Report.Prober)
	case "skipped":
		return "skipped by its author"
	case "other":
		return "the report is about other bytes"
	case "unreadable":
		return "the report cannot be read"
	default:
		return "not passed, says its author"
	}
}
