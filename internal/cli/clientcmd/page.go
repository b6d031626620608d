package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/publicpage"
)

// pageExport is one call of the command page export.
type pageExport struct {
	env                                  *command.Env
	flags                                selectionFlags
	args                                 []string // names
	title, groupBy, url                  string
	link                                 publicpage.Link
	showCauses, showTargets, showReasons bool
	showNotes                            bool
	every                                time.Duration
}

// newPage returns the command page.
func newPage(env *command.Env) *cobra.Command {
	return command.Folder("page", "Export a public status page from a running agent", newPageExport(env))
}

const longPageExport = `Export writes a status page for the public to the folder DIR: HTML without scripts, a badge
for each probe and each group, and a feed of incidents. A web server serves DIR, and nobody
reaches the agent. The agent must run with --state-dir.

It publishes names, states, uptimes, and the times of incidents and maintenance windows of
the selected probes. Addresses, outputs, reasons, notes and labels are published only by
--show-... and --group-by. A target without a name of its own has the name of its group.

A reader sees the old or the new file, and an export that fails leaves the old files. DIR
must be empty or from an earlier export. With --every and an agent that does not answer, the
page stays, and says when its data ends.`

// minEvery is the minimum of --every.
const minEvery = time.Second

func newPageExport(env *command.Env) *cobra.Command {
	var agent remote.Flags
	x := pageExport{env: env}
	c := &cobra.Command{
		Use:   "export DIR [NAME]... [KIND]",
		Short: "Write a public status page to a folder",
		Long:  longPageExport + "\n\n" + probeNames + "\n\nExit code 0, 1 if it failed or a name is not found, 3 if the agent does not respond, 64\nwrong usage.",
		Example: "  prober page export /srv/status --all --title 'Shop status'\n  prober page export /srv/status -l public=true --group-by label:team --every 1m\n" +
			"  prober page export /srv/status 'shop-*' readiness --show-causes",
		Args: command.AtLeast("a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := x.check(args); err != nil {
				return err
			}
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error { return x.run(ctx, c, args[0]) })
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return complete(env, &agent, find("probes"))(cmd, args[1:], word)
		},
	}
	agent.Add(c)
	x.flags.cmd = c
	x.flags.addPods(c)
	x.flags.addKind(c)
	x.flags.addAll(c)
	f := c.Flags()
	f.StringVar(&x.title, "title", "Status", "title of the page")
	f.StringVar(&x.groupBy, "group-by", "", "what makes groups of probes, as groupBy of notify: namespace, pod, container, kind, handler, or label:NAME")
	f.BoolVar(&x.showCauses, "show-causes", false, "publish outputs and errors, which may have internal names")
	f.BoolVar(&x.showTargets, "show-targets", false, "publish what is probed, such as addresses")
	f.BoolVar(&x.showReasons, "show-reasons", false, "publish the reasons of maintenance windows")
	f.BoolVar(&x.showNotes, "show-notes", false, "publish the notes of incidents, without their authors")
	f.StringVar(&x.url, "url", "", "public URL of the page, for readers of the feed")
	f.StringVar(&x.link.URL, "footer-url", "", "URL of a link in the footer: https, http or mailto")
	f.StringVar(&x.link.Text, "footer-text", "", "text of the link (default: its URL)")
	f.DurationVar(&x.every, "every", 0, "go on, and export again after this time, such as 1m; 0 to export once")
	completeNamespaces(c, env, &agent)
	return c
}

// check checks the flags and the arguments.
func (x *pageExport) check(args []string) error {
	x.args = args[1:]
	if _, err := x.flags.someOf(x.args); err != nil {
		e, ok := errors.AsType[*command.Exit](err)
		if path := x.flags.cmd.CommandPath() + " "; ok { // the hints are for commands without a folder
			e.Hint = strings.ReplaceAll(e.Hint, path, path+command.Quote(args[:1])+" ")
		}
		return err
	}
	if x.groupBy != "" {
		if err := config.CheckGroupField(x.groupBy); err != nil {
			return command.Usage("", "--group-by %w", err)
		}
	}
	if x.every != 0 && x.every < minEvery {
		return command.Usage("", "--every %v: must be at least %v, or 0", x.every, minEvery)
	}
	if err := checkURL(x.url, "http", "https"); err != nil {
		return command.Usage("", "--url %w", err)
	}
	if x.url != "" && !strings.HasSuffix(x.url, "/") {
		x.url += "/"
	}
	if err := checkURL(x.link.URL, "http", "https", "mailto"); err != nil {
		return command.Usage("", "--footer-url %w", err)
	}
	if x.link.Text == "" {
		x.link.Text = x.link.URL
	}
	return nil
}

// checkURL returns an error if text is not empty and no absolute URL with one of the schemes.
func checkURL(text string, schemes ...string) error {
	u, err := url.Parse(text)
	if text == "" || err == nil && slices.Contains(schemes, u.Scheme) && (u.Host != "" || u.Scheme == "mailto" && u.Opaque != "") {
		return nil
	}
	return fmt.Errorf("%.80q must be a URL with %s", text, strings.Join(schemes, ", "))
}

// run exports once, or until ctx ends.
func (x *pageExport) run(ctx context.Context, c *client.Client, path string) (err error) {
	dir, err := publicpage.OpenDir(path)
	if err != nil {
		return writeFailed(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if x.every > 0 {
		x.repeat(ctx, c, dir)
		return nil
	}
	page, m, err := x.gather(ctx, c)
	if err != nil {
		return remote.Failed(err)
	}
	if err := dir.Replace(page.Write); err != nil {
		return writeFailed(err)
	}
	fmt.Fprintf(x.env.Stdout, "%s exported to %s\n", command.Count(len(page.Probes), "probe"), explain.OneLine(path))
	return m.exit()
}

// writeFailed returns the error of a folder.
func writeFailed(err error) error {
	e := &command.Exit{Code: command.ExitFailed, Err: err}
	if _, ok := errors.AsType[*publicpage.ForeignError](err); ok {
		e.Hint = "give the page a folder of its own"
	}
	return e
}

// repeat exports until ctx ends. While the agent does not answer, it exports the last page as old.
func (x *pageExport) repeat(ctx context.Context, c *client.Client, dir *publicpage.Dir) {
	ticker := time.NewTicker(x.every)
	defer ticker.Stop()
	var last *publicpage.Page
	warned := ""
	for {
		err := x.again(ctx, c, dir, &last)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && warned != "":
			fmt.Fprintln(x.env.Stderr, "prober: the export works again")
		case err != nil && !states.Alike(err.Error(), warned):
			x.env.Warn("%s", explain.OneLine(err.Error()))
		}
		if warned = ""; err != nil {
			warned = err.Error()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// again exports a new page or, if the agent does not answer in time, the last one as old.
func (x *pageExport) again(ctx context.Context, c *client.Client, dir *publicpage.Dir, last **publicpage.Page) error {
	limit := max(x.every, time.Minute)
	asked, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: no response within %v", c.Name(), limit))
	defer cancel()
	page, m, failed := x.gather(asked, c)
	if failed == nil {
		*last, failed = page, m.exit()
	} else if *last != nil {
		old := **last
		old.Stale, old.Exported = true, time.Now()
		*last = &old
	}
	if *last == nil || ctx.Err() != nil {
		return failed
	}
	return errors.Join(failed, dir.Replace((*last).Write))
}
