package simulatecmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
)

// result is the JSON of the command.
type result struct {
	Since time.Time    `json:"since"`
	Until time.Time    `json:"until"`
	Files []fileResult `json:"files"`
}

// fileResult is what a prober.yaml would have made of the changes.
type fileResult struct {
	File      string            `json:"file"`
	Changes   int               `json:"changes"`  // of states
	Failures  int               `json:"failures"` // changes to failure
	Receivers []receiverCount   `json:"receivers"`
	Messages  []*format.Message `json:"messages"`
}

// receiverCount counts the messages of a receiver.
type receiverCount struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
	Failing  int    `json:"failing"`
	Repeated int    `json:"repeated"` // of the failing ones
	Resolved int    `json:"resolved"`
	// Night counts messages between 22:00 and 07:00, in the time zone of this host.
	Night int `json:"night"`
	// BusiestHour is the largest number of messages within an hour of the clock.
	BusiestHour int `json:"busiestHour"`
}

func (s *simulation) write(head *api.StateChanges, all []outcome) error {
	out := result{Since: head.Since, Until: head.Until}
	for i := range all {
		o := &all[i]
		if o.messages == nil {
			o.messages = []*format.Message{}
		}
		out.Files = append(out.Files, fileResult{File: o.plan.file, Changes: len(o.changes), Failures: o.failures, Receivers: o.receivers(), Messages: o.messages})
	}
	if s.output != command.Table {
		return s.env.Encode(s.output, &out)
	}
	w := s.env.Stdout
	for i := range out.Files {
		if i > 0 {
			fmt.Fprintln(w)
		}
		f := &out.Files[i]
		fmt.Fprintf(w, "%s: %s of probes from %s to %s, %s\n", f.File, plural(f.Changes, "change"), local(head.Since), local(head.Until), plural(f.Failures, "failure"))
		if err := f.table(w); err != nil {
			return err
		}
		if err := f.loudest(w); err != nil {
			return err
		}
		if s.messages {
			if err := f.list(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func local(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") }

// receivers counts the messages, in the order of the file.
func (o *outcome) receivers() (all []receiverCount) {
	for i := range o.plan.config.Notify.Receivers {
		r := receiverCount{Name: o.plan.config.Notify.Receivers[i].Name}
		hours := make(map[time.Time]int)
		for _, m := range o.messages {
			if m.Receiver != r.Name {
				continue
			}
			r.Messages++
			switch {
			case m.Status == format.Resolved:
				r.Resolved++
			case m.Repeated:
				r.Repeated++
				fallthrough
			default:
				r.Failing++
			}
			if hour := m.Time.Local().Hour(); hour >= 22 || hour < 7 {
				r.Night++
			}
			hour := m.Time.Truncate(time.Hour)
			hours[hour]++
			r.BusiestHour = max(r.BusiestHour, hours[hour])
		}
		all = append(all, r)
	}
	return all
}

func (f *fileResult) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "RECEIVER\tMESSAGES\tFAILING\tREPEATED\tRESOLVED\tNIGHT\tBUSIEST HOUR")
	for _, r := range f.Receivers {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Name, r.Messages, r.Failing, r.Repeated, r.Resolved, r.Night, r.BusiestHour)
	}
	return w.Flush()
}

// loudest lists the probes with the most messages.
func (f *fileResult) loudest(out io.Writer) error {
	counts := make(map[string]int)
	for _, m := range f.Messages {
		for i := range m.Probes {
			p := &m.Probes[i]
			counts[p.Namespace+"/"+p.Pod+"/"+p.Container+"/"+p.Kind]++
		}
	}
	if len(counts) == 0 {
		return nil
	}
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "PROBE\tIN MESSAGES")
	for _, name := range names[:min(len(names), 10)] {
		fmt.Fprintf(w, "%s\t%d\n", explain.OneLine(name), counts[name])
	}
	return w.Flush()
}

// list lists the messages.
func (f *fileResult) list(out io.Writer) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "TIME\tRECEIVER\tMESSAGE")
	for _, m := range f.Messages {
		again := ""
		if m.Repeated && m.Status != format.Resolved {
			again = " (again)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", m.Time.Local().Format(time.DateTime), m.Receiver, explain.OneLine(m.Title), again)
	}
	return w.Flush()
}
