package plugintest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

const hostileCheck = "peers that break the protocol cause no success and no trap"

// Limits of the check of hostile peers. It runs minVariants of each case, and more until it has run for
// [Config.Patience].
const (
	maxVariants  = 2000 // of each case
	minVariants  = 20
	hostileLimit = 2 * time.Second // of real time, for one attempt
)

// hostilePeers runs variants of the passing cases in which peers break the protocol.
func (g *guestRun) hostilePeers(ctx context.Context) (checked, error) {
	if len(g.file.Cases) == 0 { // it may have no text, either
		return checked{note: "no case"}, nil
	}
	h, err := newHunter(g)
	if err != nil {
		return checked{}, err
	}
	defer h.close()
	order := h.order()
	end := time.Now().Add(cmp.Or(g.cfg.Patience, defaultPatience))
	ran, total, cases := 0, 0, 0
	for i, index := range order {
		s, err := h.subject(ctx, index)
		if err != nil {
			return checked{}, err
		}
		if s == nil {
			continue
		}
		variants := s.plan.Even(maxVariants)
		n, err := s.hunt(ctx, variants, time.Now().Add(time.Until(end)/time.Duration(len(order)-i)))
		if err != nil {
			return checked{}, err
		}
		if len(variants) > 0 {
			ran, total, cases = ran+n, total+len(s.plan.Variants), cases+1
		}
	}
	return h.result(ran, total, cases), nil
}

// hunter runs variants of the cases of a file and collects what they find.
type hunter struct {
	guestRun
	editor    *testfile.Editor
	sandboxes map[string]*sandbox // by grants
	found     map[string]finding  // by key: one of each cause
}

// finding is a variant for which a plugin breaks a rule.
type finding struct {
	order int
	text  string // reason, with the case and the variant
	item  string // the variant as an item of cases
}

func newHunter(g *guestRun) (*hunter, error) {
	h := &hunter{guestRun: *g, sandboxes: make(map[string]*sandbox), found: make(map[string]finding)}
	h.limit = clock.NewLimit(min(hostileLimit, cmp.Or(g.cfg.Stuck, defaultStuck)))
	var err error
	h.editor, err = testfile.NewEditor(g.file)
	return h, err
}

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
func (h *hunter) result(ran, total, cases int) (c checked) {
	c.note = fmt.Sprintf("%s variants of %s", thousands(ran), plural(cases, "case"))
	if ran < total {
		c.note = fmt.Sprintf("%s of %s", thousands(ran), thousands(total)) + strings.TrimPrefix(c.note, thousands(ran))
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
