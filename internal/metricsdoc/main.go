// Metricsdoc writes docs/metrics.md from the metrics that prober declares.
package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/agentmetrics"
)

//go:generate go run . ../../docs/metrics.md

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: metricsdoc FILE")
		os.Exit(64)
	}
	if err := os.WriteFile(os.Args[1], []byte(page(agentmetrics.Families())), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const head = `---
title: Metrics
weight: 60
description: Every metric of a running agent, with its labels.
---
# Metrics

<!-- Written by ` + "`make docs`" + ` from metrics/families.go and metrics/agentmetrics. Do not edit. -->

` + "`GET /metrics`" + ` of a running agent shows these metrics in Prometheus' text format, or in OpenMetrics or protobuf for clients that ask for it.
Names and labels are stable, as [versioning.md](versioning.md) says.
Labels without a list of values have one series for each present value.
The Go runtime and the process also have the metrics ` + "`go_*` and `process_*`" + ` of Prometheus' client library.

A probe has series of ` + "`prober_probe_state`" + ` as soon as it exists, and the others from its first tick. All end with its worker.
The kubelet's metrics have ` + "`probe_type=\"Readiness\"`, all others `kind=\"readiness\"`" + `.
With ` + "`--metrics-buckets none` `prober_probe_duration_seconds`" + ` is a summary with only its sum and its count.
With ` + "`native`" + ` it is a native histogram for clients that ask for protobuf, and for others its sum and its count; ` + "`both`" + ` adds the classic buckets.

These labels have the same values in several metrics:

`

// page returns docs/metrics.md.
func page(families []metrics.Family) string {
	var b strings.Builder
	b.WriteString(head)
	shared := sharedLabels(families)
	b.WriteString("| label | values |\n|---|---|\n")
	for _, l := range shared {
		fmt.Fprintf(&b, "| `%s` | %s |\n", l.Name, values(l))
	}
	group := ""
	for _, f := range families {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		fmt.Fprintf(&b, "\n### %s\n%s%s.\n%s\n", f.Name, title(string(f.Type)), unit(f), sentences(f.Help))
		if len(f.Labels) > 0 {
			b.WriteString("\n" + labels(f.Labels, shared))
		}
		if len(f.Buckets) > 0 {
			fmt.Fprintf(&b, "\nBuckets: %s.\n", buckets(f.Buckets))
		}
		if f.Alert != "" {
			fmt.Fprintf(&b, "\n**Alert**: %s\n", sentences(f.Alert))
		}
	}
	return b.String()
}

// sharedLabels returns the labels with the same values in at least two families. If labels with one name have
// different values, it returns the most frequent one.
func sharedLabels(families []metrics.Family) (shared []metrics.Label) {
	count := make(map[string]int)
	for _, f := range families {
		for _, l := range f.Labels {
			count[l.Name+" "+values(l)]++
		}
	}
	for _, f := range families {
		for _, l := range f.Labels {
			n := count[l.Name+" "+values(l)]
			switch i := slices.IndexFunc(shared, func(s metrics.Label) bool { return s.Name == l.Name }); {
			case i >= 0 && n > count[l.Name+" "+values(shared[i])]:
				shared[i] = l
			case i < 0 && n > 1:
				shared = append(shared, l)
			}
		}
	}
	return shared
}

// labels returns the lines that list the labels of a family: shared ones by name, others with their values.
func labels(all, shared []metrics.Label) string {
	var names, others []string
	for _, l := range all {
		if slices.ContainsFunc(shared, func(s metrics.Label) bool { return s.Name == l.Name && values(s) == values(l) }) {
			names = append(names, "`"+l.Name+"`")
		} else {
			others = append(others, fmt.Sprintf("- `%s`: %s\n", l.Name, values(l)))
		}
	}
	if len(names) == 0 {
		return "Labels:\n" + strings.Join(others, "")
	}
	if len(others) == 0 {
		return "Labels: " + strings.Join(names, ", ") + ".\n"
	}
	return "Labels: " + strings.Join(names, ", ") + ", and\n" + strings.Join(others, "")
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func unit(f metrics.Family) string {
	if f.Unit == "" {
		return ""
	}
	return " in " + f.Unit
}

// sentences returns text with a sentence a line.
func sentences(text string) string { return strings.ReplaceAll(text, ". ", ".\n") }

func values(l metrics.Label) string {
	if l.Values == nil {
		return l.About
	}
	return "`" + strings.Join(l.Values, "` `") + "`"
}

func buckets(bounds []float64) string {
	words := make([]string, len(bounds))
	for i, b := range bounds {
		words[i] = strconv.FormatFloat(b, 'f', -1, 64)
	}
	return strings.Join(words, ", ")
}
