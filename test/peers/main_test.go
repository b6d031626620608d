package main

import (
	"regexp"
	"strings"
	"testing"
)

const source = `package p

import (
	"regexp"
	"fmt"
	"strings"
)

// T is a type.
type T struct{}

func (t *T) run() { fmt.Println(strings.ToUpper("a")) }

func (t T) stop() {}

func run() {}
`

func TestCutRemovesDeclarationsAndImports(t *testing.T) {
	got, err := replacements{declarations: []string{"T.run", "run"}, imports: []string{"strings"}}.cut([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for text, kept := range map[string]bool{"type T struct{}": true, "stop()": true, `"fmt"`: true, "run()": false, "strings": false} {
		if strings.Contains(string(got), text) != kept {
			t.Errorf("contains %q: %t, want %t\n%s", text, !kept, kept, got)
		}
	}
}

func TestCutMissingDeclarationIsError(t *testing.T) {
	for _, r := range []replacements{{declarations: []string{"T.start"}}, {imports: []string{"os"}}} {
		if _, err := r.cut([]byte(source)); err == nil {
			t.Errorf("%v: no error", r)
		}
	}
}

// output returns the output of go test -json with results, as "NAME=RESULT".
func output(results ...string) []byte {
	var b strings.Builder
	for _, r := range results {
		name, result, _ := strings.Cut(r, "=")
		b.WriteString(`{"Action":"` + result + `","Test":"` + name + `"}` + "\n")
	}
	return []byte(b.String())
}

func TestJudge(t *testing.T) {
	p := peer{name: "peer", tests: 3, uses: regexp.MustCompile("^Test(A|Odd)$"), excepted: map[string]string{"TestOdd": "is odd"}}
	good := []string{"TestA/1=pass", "TestA/2=pass", "TestA=pass", "TestOwn=pass"}
	for name, test := range map[string]struct {
		runs [][]string
		want string // in the summary, or in the error
	}{
		"all pass":               {[][]string{good}, "3 of 3 tests pass, of which 2 of 2 use core/endpoint"},
		"passes the second time": {[][]string{{"TestA/1=fail", "TestA/2=pass", "TestA=fail", "TestOwn=pass"}, good}, "1 of them not in every one of 2 runs"},
		"fails each time":        {[][]string{{"TestA/1=fail", "TestA/2=pass", "TestA=fail", "TestOwn=pass"}}, "TestA/1: fail"},
		"skipped":                {[][]string{{"TestA/1=skip", "TestA/2=pass", "TestA=pass", "TestOwn=pass"}}, "TestA/1: skip"},
		"missing":                {[][]string{{"TestA/1=pass", "TestA=pass", "TestOwn=pass"}}, "2 tests have run, and the table of peers has 3"},
		"exception":              {[][]string{{"TestA/1=pass", "TestA=pass", "TestOwn=pass", "TestOdd=fail"}}, "2 of 3 tests pass, of which 1 of 2 use core/endpoint\n  TestOdd fails: it is odd"},
		"exception passes":       {[][]string{{"TestA/1=pass", "TestA=pass", "TestOwn=pass", "TestOdd=pass"}}, "TestOdd passes, but"},
		"parent fails by itself": {[][]string{{"TestA/1=pass", "TestA/2=pass", "TestA=fail", "TestOwn=pass"}}, "TestA: fail"},
	} {
		t.Run(name, func(t *testing.T) {
			all := newTests()
			for i, r := range test.runs {
				all.again = i
				if _, err := all.add(output(r...)); err != nil {
					t.Fatal(err)
				}
			}
			got := p.summary(all)
			if err := p.judge(all); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
