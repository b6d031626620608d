package plugincmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/plugin/index"
)

// partOfProber is the source of plugins that are shipped.
const partOfProber = "part of prober"

// ownerOf returns what has a name that no index may take; "" for a free name.
func ownerOf(name string) string {
	switch {
	case slices.Contains(builtinNames(), name):
		return "a built-in handler"
	case slices.Contains(shipped.Names(), name):
		return partOfProber
	default:
		return ""
	}
}

// hit is a plugin that a search found.
type hit struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description,omitempty"`
	License     string   `json:"license,omitempty"`
	Keywords    []string `json:"keywords,omitempty"`
	Versions    []string `json:"versions,omitempty"`
	Source      string   `json:"source"`
	Digest      string   `json:"digest,omitempty"`
	Requests    []string `json:"requests,omitempty"`
	Taken       string   `json:"taken,omitempty"` // what has this name already
}

func newSearch(env *command.Env) *cobra.Command {
	var f indexFlags
	var output string
	c := &cobra.Command{
		Use:   "search [WORD]",
		Short: "Find plugins in an index, and among the plugins of prober",
		Long: "Search prints the plugins with WORD in their name, description or keywords: those that are part of\n" +
			"prober, and plugins of an index with --index.",
		Example: "  prober plugin search redis\n  prober plugin search database --index https://plugins.example.com/index.yaml",
		Args:    command.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			word := ""
			if len(args) == 1 {
				word = args[0]
			}
			hits, err := f.search(cmd.Context(), env, word)
			if err != nil {
				return err
			}
			if output != command.Table {
				return env.Encode(output, map[string]any{"items": hits})
			}
			return printHits(env, hits)
		},
	}
	f.add(c)
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

// search returns the plugins with word in their texts.
func (f *indexFlags) search(ctx context.Context, env *command.Env, word string) ([]hit, error) {
	hits := []hit{}
	own, err := shipped.Plugins()
	if err != nil {
		return nil, command.Failed(err)
	}
	for _, s := range own {
		m := s.Manifest
		p := index.Plugin{Name: m.Name, Description: m.Description}
		if p.Matches(word) {
			hits = append(hits, hit{Name: m.Name, Version: m.Version, Description: m.Description, License: m.License, Source: partOfProber, Digest: s.Digest})
		}
	}
	if f.index == "" {
		return hits, nil
	}
	x, err := f.load(ctx, env)
	if err != nil {
		return nil, err
	}
	for _, p := range x.Plugins {
		if !p.Matches(word) {
			continue
		}
		v := p.Newest("")
		h := hit{
			Name: p.Name, Version: v.Version, Description: p.Description, License: p.License, Keywords: p.Keywords,
			Source: v.Source, Digest: v.Digest, Requests: v.Requests, Taken: ownerOf(p.Name),
		}
		for _, o := range p.Versions {
			h.Versions = append(h.Versions, o.Version)
		}
		hits = append(hits, h)
	}
	return hits, nil
}

func printHits(env *command.Env, hits []hit) error {
	w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERSION\tREQUESTS\tSOURCE\tDESCRIPTION")
	for _, h := range hits {
		source, _, _ := strings.Cut(h.Source, "@")
		if h.Taken != "" {
			source += " (its name is " + h.Taken + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.Name, orDash(h.Version), orDash(strings.Join(h.Requests, ",")), explain.OneLine(source), explain.OneLine(h.Description))
	}
	return w.Flush()
}

// orDash returns text on one line, "-" if it is empty.
func orDash(text string) string {
	if text = explain.OneLine(text); text == "" {
		return "-"
	}
	return text
}
