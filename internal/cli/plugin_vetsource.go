package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// unreachable are what reaches no network inside a guest: there it meets a fake, and a
// target that is well looks as if it were down.
var unreachable = map[string][]string{
	"net":        {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialUnix", "Dialer", "LookupHost", "LookupIP", "LookupAddr", "LookupTXT", "LookupMX", "LookupSRV", "LookupNS", "LookupCNAME", "DefaultResolver", "Resolver"},
	"net/http":   {"Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer"},
}

// goFile is a file that a guest is built of.
type goFile struct {
	parsed *ast.File
	names  map[string]string // of the packages that it imports, to their paths
}

// vetGo finds the uses of what is unreachable in the Go files of dir that are no tests.
func vetGo(dir string) (findings []finding, err error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.go"))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	var sources []goFile
	carried := false // sdkhttp carries net/http, for the whole program
	for _, file := range paths {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		f := goFile{parsed, make(map[string]string)}
		for _, spec := range parsed.Imports {
			from, _ := strconv.Unquote(spec.Path.Value)
			name := path.Base(from)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			f.names[name] = from
			carried = carried || strings.HasSuffix(from, "/sdk/sdkhttp")
		}
		sources = append(sources, f)
	}
	for _, f := range sources {
		findings = append(findings, f.vet(files, carried)...)
	}
	return findings, nil
}

func (f goFile) vet(files *token.FileSet, carried bool) (findings []finding) {
	ast.Inspect(f.parsed, func(n ast.Node) bool {
		use, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := use.X.(*ast.Ident)
		if !ok {
			return true
		}
		from := f.names[pkg.Name]
		if slices.Contains(unreachable[from], use.Sel.Name) && !(carried && from == "net/http") {
			at := files.Position(use.Pos())
			findings = append(findings, finding{
				Path: at.Filename, Line: at.Line, Column: at.Column,
				Message: fmt.Sprintf("%s.%s reaches no network in a guest: use sdk.Dial, or sdkhttp", pkg.Name, use.Sel.Name),
			})
		}
		return true
	})
	return findings
}

// useless are texts of sources in other languages that lead nowhere inside a guest, each
// with what to use.
var useless = map[string]map[string]string{
	"*.rs": {"std::net::": "reaches no network in a guest: use prober::net"},
	"*.c":  {"<sys/socket.h>": "reaches no network in a guest: use prober_dial", "<netdb.h>": "reaches no network in a guest: use prober_dial"},
	"*.ts": {"Date.now(": "is no function of prober's: use now", "Math.random(": "is no function of prober's"},
}

// vetOtherSources looks for what is useless, line by line.
func vetOtherSources(dir string) (findings []finding, err error) {
	for pattern, texts := range useless {
		paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range paths {
			source, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			findings = append(findings, vetLines(file, string(source), texts)...)
		}
	}
	sortFindings(findings)
	return findings, nil
}

func vetLines(file, source string, texts map[string]string) (findings []finding) {
	number := 0
	for line := range strings.Lines(source) {
		number++
		code, _, _ := strings.Cut(line, "//")
		for text, why := range texts {
			if at := strings.Index(code, text); at >= 0 {
				findings = append(findings, finding{Path: file, Line: number, Column: at + 1, Message: strings.Trim(text, ":(") + " " + why})
			}
		}
	}
	return findings
}
