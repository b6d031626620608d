package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
)

func root() *cobra.Command {
	c := cli.Root(&command.Env{})
	c.InitDefaultHelpCmd()
	return c
}

// completions returns the completion scripts of all shells.
func completions() (files []file, _ error) {
	for _, shell := range []struct {
		file  string
		write func(*cobra.Command, *bytes.Buffer) error
	}{
		{"_prober", func(c *cobra.Command, b *bytes.Buffer) error { return c.GenZshCompletion(b) }},
		{"prober.bash", func(c *cobra.Command, b *bytes.Buffer) error { return c.GenBashCompletionV2(b, true) }},
		{"prober.fish", func(c *cobra.Command, b *bytes.Buffer) error { return c.GenFishCompletion(b, true) }},
		{"prober.ps1", func(c *cobra.Command, b *bytes.Buffer) error { return c.GenPowerShellCompletionWithDesc(b) }},
	} {
		var b bytes.Buffer
		if err := shell.write(root(), &b); err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + shell.file, data: b.Bytes()})
	}
	return files, nil
}

// manPages returns one page of section 1 for each command.
func manPages(version string, date time.Time) (files []file) {
	for _, c := range commands(root()) {
		files = append(files, file{name: "man/" + pageName(c) + ".1", data: []byte(manPage(c, version, date))})
	}
	return files
}

// commands returns c and all commands below it.
func commands(c *cobra.Command) []*cobra.Command {
	c.InitDefaultHelpFlag()
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" { // cobra reports help as unavailable
			all = append(all, commands(sub)...)
		}
	}
	return all
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the page of one command in roff.
func manPage(c *cobra.Command, version string, date time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q %q\n", strings.ToUpper(pageName(c)), date.Format("2006-01-02"), "prober "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(c.Long))
	}
	if subs := commands(c)[1:]; len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	c.Flags().VisitAll(func(f *pflag.Flag) { b.WriteString(option(f)) })
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	if parent := c.Parent(); parent != nil {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(pageName(parent)))
	}
	return b.String()
}

// option returns the paragraph of one flag.
func option(f *pflag.Flag) string {
	if f.Hidden {
		return ""
	}
	t := command.TextOf(f)
	name, text := t.Name, f.Usage
	if t.Short != "" {
		name = t.Short + ", " + name
	}
	if t.Value != "" {
		name += "=" + t.Value
	}
	if t.Default != "" {
		text += " (default " + t.Default + ")"
	}
	return fmt.Sprintf(".TP\n\\fB%s\\fR\n%s\n", roff(name), roff(text))
}

// roff escapes text: backslashes, minus signs, and points and quotes at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
