package adverse_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/adverse"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

const cases = `apiVersion: prober.dev/v1
kind: PluginTest
plugin: ./x.wasm
cases:
- name: text over TCP
  host:
    net:
    - dial: tcp://a:1
      script: [{send: {text: "220 hello\r\n"}}, {recv: any}, {send: {text: "{\"jobs\": [1, -2.5], \"state\": \"ok\"}\r\n", every: 1ms}}, {recv: any}, {close: {}}]
  want: {result: success}
- name: bytes over UDP
  host: {net: [{dial: "udp://a:1", script: [{recv: any}, {send: {hex: "0000 0004 0102 0304"}}]}]}
  want: {result: success}
- name: HTTP
  host: {http: [{match: {url: /}, reply: {status: 201, headers: {a: b}, body: {json: {a: [1, {b: x}]}}}}, {match: {url: /b}, reply: {body: {hex: 00ff}}}]}
  want: {result: success}
- name: DNS
  host: {dns: [{name: a, answers: [10.0.0.1]}]}
  want: {result: success}
- name: no peers
  want: {result: success}
`

// plans returns an editor of the cases above, and their items and plans.
func plans(t *testing.T) (*testfile.Editor, []*yamlpos.Node, []*adverse.Plan) {
	t.Helper()
	return plansOf(t, cases)
}

// plansOf returns the same for a text.
func plansOf(t *testing.T, cases string) (*testfile.Editor, []*yamlpos.Node, []*adverse.Plan) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x_test.yaml")
	if err := os.WriteFile(path, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := testfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := testfile.NewEditor(f)
	if err != nil {
		t.Fatal(err)
	}
	var items []*yamlpos.Node
	var all []*adverse.Plan
	for i := range f.Cases {
		item, err := e.Item(i)
		if err != nil {
			t.Fatal(err)
		}
		items, all = append(items, item), append(all, adverse.New(item))
	}
	return e, items, all
}

// edited returns an item after an edit. The item must be a valid case.
func edited(t *testing.T, e *testfile.Editor, item *yamlpos.Node, what string, edit adverse.Edit) *yamlpos.Node {
	t.Helper()
	item = testfile.Clone(item)
	edit(item)
	if _, err := e.Case(item); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return item
}

// Computed data begins like no other answer.
func TestComputedAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	const file = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ncases:\n" +
		"- {name: a, want: {result: success}, host: {net: [{dial: 'tcp://a:1', script: [{recv: {length: 2, as: id}}, {send: {text: '${id}'}}]}]}}\n"
	e, items, all := plansOf(t, file)
	count := 0
	for _, v := range all[0].Variants {
		if strings.HasSuffix(v.What, "in place of step 2") {
			edited(t, e, items[0], v.What, v.Edit)
			count++
		}
	}
	if count == 0 {
		t.Error("no variant sends another answer")
	}
}

func TestVariantsAreValidCases(t *testing.T) {
	t.Parallel()
	e, items, all := plans(t)
	for i, p := range all {
		before := testfile.Clone(items[i])
		for _, v := range p.Variants {
			edited(t, e, items[i], v.What, v.Edit)
			if v.Shrunk != nil {
				edited(t, e, items[i], v.What, v.Shrunk(1))
			}
			if v.Stream >= len(p.Streams) || v.Point >= p.Streams[v.Stream].Points() {
				t.Errorf("%s: it is at point %d of stream %d", v.What, v.Point, v.Stream)
			}
			if v.Rule != adverse.Any && !slices.Contains(testfile.Faults, v.Family) {
				t.Errorf("%s: a case cannot accept %s", v.What, v.Family)
			}
		}
		for _, s := range p.Streams {
			for _, edit := range s.Stalls {
				edited(t, e, items[i], s.Name, edit)
			}
		}
		if !reflect.DeepEqual(items[i], before) {
			t.Errorf("case %d: edits change the item itself", i+1)
		}
	}
}

func TestPlanHasEachFault(t *testing.T) {
	t.Parallel()
	_, _, all := plans(t)
	for i, want := range [][]testfile.Fault{
		{testfile.CutAndClose, testfile.CutAndReset, testfile.AnotherAnswer, testfile.Unanswered, testfile.ByteByByte, testfile.Pauses, testfile.AtOnce},
		{testfile.AnotherAnswer, testfile.Unanswered},
		{testfile.CutAndReset, testfile.AnotherBody, testfile.Status, testfile.Unanswered, testfile.ByteByByte},
		{testfile.RCode, testfile.Truncated, testfile.Unanswered},
		nil,
	} {
		families := make(map[testfile.Fault]int)
		for _, v := range all[i].Variants {
			families[v.Family]++
		}
		for _, f := range want {
			if families[f] == 0 {
				t.Errorf("case %d: no variant of %s", i+1, f)
			}
		}
	}
}

func TestFirstHasEachFamily(t *testing.T) {
	t.Parallel()
	_, _, all := plans(t)
	const n = 30
	first := all[0].First(n)
	families := make(map[testfile.Fault]bool)
	for _, v := range all[0].Variants {
		families[v.Family] = true
	}
	for _, v := range first {
		delete(families, v.Family)
	}
	if len(first) != n || len(families) > 0 {
		t.Errorf("%d variants; %v are missing", len(first), families)
	}
	if got := len(all[0].First(1 << 20)); got != len(all[0].Variants) {
		t.Errorf("%d of %d variants", got, len(all[0].Variants))
	}
}

func TestRandomDependsOnlyOnSeed(t *testing.T) {
	t.Parallel()
	e, items, all := plans(t)
	for i, p := range all {
		a, b := rand.New(rand.NewPCG(7, 0)), rand.New(rand.NewPCG(7, 0))
		for range 200 {
			v, ok := p.Random(a)
			again, _ := p.Random(b)
			if ok != (len(p.Variants) > 0) {
				t.Fatalf("case %d: a random variant: %t", i+1, ok)
			}
			if !ok {
				break
			}
			if !reflect.DeepEqual(edited(t, e, items[i], v.What, v.Edit), edited(t, e, items[i], again.What, again.Edit)) {
				t.Errorf("%s: two variants of one seed differ", v.What)
			}
		}
	}
}
