package plugintest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// Limits of the check of hostile peers. It runs minVariants of each case, and more until it has run for
// [Config.Patience].
const (
	maxVariants  = 2000 // of each case
	minVariants  = 20
	hostileLimit = 2 * time.Second // of real time, for one attempt
)

// MaxFindings is the number of findings at which the check of hostile peers, and [Fuzz], stop.
const MaxFindings = 50

// hostilePeers runs variants of the passing cases in which peers break the protocol.
func (g *guestRun) hostilePeers(ctx context.Context) (checked, error) {
	if len(g.file.Cases) == 0 {
		return checked{note: "no case to vary"}, nil
	}
	h, err := newHunter(g)
	if err != nil {
		return checked{}, err
	}
	defer h.close()
	order := h.order()
	end := time.Now().Add(cmp.Or(g.cfg.Patience, defaultPatience))
	for i, index := range order {
		if h.full() {
			break
		}
		until := time.Now().Add(time.Until(end) / time.Duration(len(order)-i))
		if err := h.vary(ctx, index, until); err != nil {
			return checked{}, err
		}
	}
	return h.result(), nil
}

// vary runs variants of the case at index, unless they passed before.
func (h *hunter) vary(ctx context.Context, index int, until time.Time) error {
	inputs, err := fingerprint(h.editor, h.file, index)
	if err != nil {
		return err
	}
	inputs = digest("hostile peers", inputs)
	if note, ok := h.passed.note(inputs); ok {
		var ran, total int
		if _, err := fmt.Sscanf(note, "%d %d", &ran, &total); err == nil {
			h.count(ran, total)
			h.unchanged++
			return nil
		}
	}
	s, err := h.subject(ctx, index)
	if err != nil || s == nil {
		return err
	}
	variants, found := s.plan.First(maxVariants), len(h.found)
	ran, complete, err := s.hunt(ctx, variants, until)
	if err != nil || len(variants) == 0 {
		return err
	}
	total := len(s.plan.Variants)
	if complete { // the others of variants are no valid cases
		total -= len(variants) - ran
	}
	h.count(ran, total)
	if len(h.found) == found && !s.broken && complete {
		h.passed.add(inputs, fmt.Sprint(ran, total))
	}
	return nil
}

func (h *hunter) count(ran, total int) {
	h.ran, h.total, h.cases = h.ran+ran, h.total+total, h.cases+1
}

// hunter runs variants of the cases of a file and collects their findings.
type hunter struct {
	guestRun
	editor    *testfile.Editor
	sandboxes map[string]*sandbox // by sandboxKey
	found     map[string]finding  // by key: one of each cause

	position int                                      // at which findings are placed in a file
	encode   func(item *yamlpos.Node) (string, error) // returns the text of a finding

	ran, total       int // variants
	cases, unchanged int
}

// finding is a variant for which a plugin breaks a rule.
type finding struct {
	order int
	text  string // reason, with the case and the variant
	item  string // the variant as an item of cases
}

func newHunter(g *guestRun) (*hunter, error) {
	h := &hunter{guestRun: *g, sandboxes: make(map[string]*sandbox), found: make(map[string]finding), position: len(g.file.Cases)}
	h.encode = func(item *yamlpos.Node) (string, error) { return encoded([]*yamlpos.Node{item}) }
	h.limit = clock.NewLimit(min(hostileLimit, cmp.Or(g.cfg.Stuck, defaultStuck)))
	var err error
	h.editor, err = testfile.NewEditor(g.file)
	return h, err
}

// full reports whether the search must stop.
func (h *hunter) full() bool { return len(h.found) >= MaxFindings }

func (h *hunter) close() {
	for _, s := range h.sandboxes {
		s.close()
	}
}

// order returns the indexes of the cases: first those that want success.
func (h *hunter) order() (order []int) {
	for i := range h.file.Cases {
		order = append(order, i)
	}
	rank := func(i int) int {
		if h.file.Cases[i].Want.Result == "success" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// result returns the findings of all cases, in the order in which they were found.
func (h *hunter) result() (c checked) {
	c.note = thousands(h.ran)
	if h.ran < h.total {
		c.note += " of " + thousands(h.total)
	}
	c.note += " variants of " + plural(h.cases, "case")
	if h.unchanged > 0 {
		c.note += fmt.Sprintf("; %d unchanged", h.unchanged)
	}
	if h.full() {
		c.note += fmt.Sprintf("; stopped at %d findings", MaxFindings)
	}
	for _, f := range slices.SortedFunc(maps.Values(h.found), func(a, b finding) int { return cmp.Compare(a.order, b.order) }) {
		c.failures, c.cases = append(c.failures, f.text), append(c.cases, f.item)
	}
	return c
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// thousands returns a number with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
