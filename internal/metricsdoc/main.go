// Metricsdoc writes docs/metrics.md from the metrics that prober declares.
package main

import (
	"fmt"
	"os"
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
Labels without a list of values have one series for each value that there is at the moment.
The Go runtime and the process have the metrics ` + "`go_*` and `process_*`" + ` of Prometheus' client library as well.

A probe has series of ` + "`prober_probe_state`" + ` as soon as it exists, and the others with its first tick. All go with its worker.
The kubelet's metrics have ` + "`probe_type=\"Readiness\"`, all others `kind=\"readiness\"`" + `.
With ` + "`--metrics-buckets none` `prober_probe_duration_seconds`" + ` is a summary without quantiles: it has its sum and its count.
With ` + "`native`" + ` it is a native histogram for clients that ask for protobuf, and has its sum and its count for others; with ` + "`both`" + ` it has the classic buckets too.
`

// page returns docs/metrics.md.
func page(families []metrics.Family) string {
	var b strings.Builder
	b.WriteString(head)
	group := ""
	for _, f := range families {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		fmt.Fprintf(&b, "\n### %s\n%s%s.\n%s\n", f.Name, title(string(f.Type)), unit(f), sentences(f.Help))
		if len(f.Labels) > 0 {
			b.WriteString("\n| label | values |\n|---|---|\n")
			for _, l := range f.Labels {
				fmt.Fprintf(&b, "| `%s` | %s |\n", l.Name, values(l))
			}
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
