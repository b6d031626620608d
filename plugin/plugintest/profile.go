package plugintest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
)

// Profile tells where a guest spent its fuel in all cases, and in its initialization.
type Profile struct {
	Functions []FunctionFuel // that were called, the one with the most fuel first
	Host      []HostCalls    // functions of the host that the guest called, the one it waited for longest first
	Reason    string         // why there is no profile
}

// FunctionFuel is the fuel of a function itself, without the functions that it calls. A unit is about one
// instruction.
type FunctionFuel struct {
	Name  string `json:"name"`
	Fuel  uint64 `json:"fuel"`
	Calls uint64 `json:"calls"`
}

// HostCalls are the calls of a function of the host.
type HostCalls struct {
	Name   string // "MODULE.FUNCTION"
	Calls  uint64
	Waited time.Duration // on the clock of the case
}

// Fuel returns the fuel of all functions.
func (p *Profile) Fuel() (all uint64) {
	for _, f := range p.Functions {
		all += f.Fuel
	}
	return all
}

// profileOf returns the profile of the cases that ran.
func profileOf(c *wasm.Coverage) *Profile {
	p := &Profile{}
	if reason := c.Uncounted(); reason != "" {
		p.Reason = "the module does not count its fuel: " + reason
	}
	for _, f := range c.Functions() {
		if f.Calls > 0 || f.Fuel > 0 {
			p.Functions = append(p.Functions, FunctionFuel{readable(f.Name), f.Fuel, f.Calls})
		}
	}
	for _, h := range c.HostCalls() {
		p.Host = append(p.Host, HostCalls(h))
	}
	slices.SortStableFunc(p.Functions, func(a, b FunctionFuel) int {
		return cmp.Or(cmp.Compare(b.Fuel, a.Fuel), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(p.Host, func(a, b HostCalls) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	return p
}

// maxProfiled is how many functions a table shows.
const maxProfiled = 20

// write writes the functions with the most fuel, and the host functions.
func (p *Profile) write(out io.Writer) error {
	if p.Reason != "" {
		_, err := fmt.Fprintf(out, "profile: %s\n", strings.Map(printable, p.Reason))
		return err
	}
	all := p.Fuel()
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "FUEL\tSHARE\tCALLS\t  FUNCTION\n")
	for _, f := range p.Functions[:min(len(p.Functions), maxProfiled)] {
		fmt.Fprintf(w, "%d\t%.1f%%\t%d\t  %s\n", f.Fuel, 100*float64(f.Fuel)/float64(max(all, 1)), f.Calls, strings.Map(printable, f.Name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(p.Host) > 0 {
		fmt.Fprint(w, "CALLS\tWAITED\t  HOST FUNCTION\n")
		for _, h := range p.Host {
			fmt.Fprintf(w, "%d\t%v\t  %s\n", h.Calls, h.Waited.Round(time.Microsecond), strings.Map(printable, h.Name))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "profile: the cases take %d units of fuel in %d functions\n", all, len(p.Functions))
	return err
}
