package plugincmd

import (
	"errors"
	"fmt"
	"go/ast"
	gobuild "go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

// unreachable are functions that use Go's fake network inside a guest. With them, a healthy target seems to
// be down.
var unreachable = map[string][]string{
	"net":        {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialUnix", "Dialer", "LookupHost", "LookupIP", "LookupAddr", "LookupTXT", "LookupMX", "LookupSRV", "LookupNS", "LookupCNAME", "DefaultResolver", "Resolver"},
	"net/http":   {"Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer"},
}

// goFile is a Go source file of a plugin.
type goFile struct {
	parsed *ast.File
	names  map[string]string // names of imported packages, to their paths
}

// imports reports whether the file imports a package of prober's SDK.
func (f goFile) imports(suffix string) bool {
	for _, from := range f.names {
		if strings.HasSuffix(from, suffix) {
			return true
		}
	}
	return false
}

// vetGo checks the Go packages of the plugin in dir. A guest must not use functions that reach no
// network, and a process must serve.
func vetGo(dir string, m *plugin.Manifest) (findings []finding, err error) {
	target := gobuild.Default
	target.OpenFile = func(path string) (io.ReadCloser, error) { return regular.Open(path) }
	if m.Runtime != plugin.Process {
		target.GOOS, target.GOARCH, target.CgoEnabled = "wasip1", "wasm", false
	}
	paths, err := goFiles(dir, target)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	files := token.NewFileSet()
	sources, err := parseGo(files, paths)
	if err != nil {
		return nil, err
	}
	if m.Runtime == plugin.Process {
		return vetServe(dir, sources), nil
	}
	// It replaces the transport of net/http in the whole program.
	sdkhttp := slices.ContainsFunc(sources, func(f goFile) bool { return f.imports("/sdk/sdkhttp") })
	for _, f := range sources {
		findings = append(findings, f.vet(files, sdkhttp)...)
	}
	return findings, nil
}

func parseGo(files *token.FileSet, paths []string) (sources []goFile, err error) {
	for _, file := range paths {
		text, err := regular.Read(file, maxSource)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
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
		}
		sources = append(sources, f)
	}
	return sources, nil
}

// goFiles returns the files for a target of the package in dir and of the packages of its module that
// it imports, without tests.
func goFiles(dir string, target gobuild.Context) (paths []string, err error) {
	root, module := goModule(dir)
	dirs := []string{filepath.Clean(dir)}
	for i := 0; i < len(dirs); i++ {
		pkg, err := target.ImportDir(dirs[i], 0)
		if _, ok := errors.AsType[*gobuild.NoGoError](err); ok {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, name := range pkg.GoFiles {
			paths = append(paths, filepath.Join(dirs[i], name))
		}
		for _, from := range pkg.Imports {
			below, ok := strings.CutPrefix(from, module+"/")
			next := filepath.Join(root, filepath.FromSlash(below))
			if info, err := os.Stat(next); ok && module != "" && err == nil && info.IsDir() && !slices.Contains(dirs, next) {
				dirs = append(dirs, next)
			}
		}
	}
	return paths, nil
}

// goModule returns the folder and the path of the Go module in dir. Both are "" if there is none.
func goModule(dir string) (root, module string) {
	text, err := regular.Read(filepath.Join(dir, "go.mod"), plugin.MaxManifest)
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "module" {
			return dir, strings.Trim(f[1], "\"`")
		}
	}
	return "", ""
}

// vetServe returns a finding if a process neither calls process.Serve nor imports go-plugin.
func vetServe(dir string, sources []goFile) []finding {
	for _, f := range sources {
		if f.imports("github.com/hashicorp/go-plugin") || f.calls("/sdk/process", "Serve") {
			return nil
		}
	}
	return []finding{{Path: dir, Message: "nothing calls process.Serve of sdk/process, so prober cannot start it"}}
}

// uses yields the selector expressions whose operand is an identifier, such as net.Dial, with
// that identifier.
func (f goFile) uses(yield func(use *ast.SelectorExpr, pkg *ast.Ident) bool) {
	for n := range ast.Preorder(f.parsed) {
		if use, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := use.X.(*ast.Ident); ok && !yield(use, pkg) {
				return
			}
		}
	}
}

// calls reports whether the file names a function of a package of prober's SDK.
func (f goFile) calls(suffix, function string) bool {
	for use, pkg := range f.uses {
		if use.Sel.Name == function && strings.HasSuffix(f.names[pkg.Name], suffix) {
			return true
		}
	}
	return false
}

// vet returns a finding for each use of a function that reaches no network. With sdkhttp, net/http reaches
// the network.
func (f goFile) vet(files *token.FileSet, sdkhttp bool) (findings []finding) {
	for use, pkg := range f.uses {
		from := f.names[pkg.Name]
		if slices.Contains(unreachable[from], use.Sel.Name) && !(sdkhttp && from == "net/http") {
			at := files.Position(use.Pos())
			findings = append(findings, finding{
				Path: at.Filename, Line: at.Line, Column: at.Column,
				Message: fmt.Sprintf("%s.%s reaches no network in a guest: use sdk.Dial, or sdkhttp", pkg.Name, use.Sel.Name),
			})
		}
	}
	return findings
}

// useless is a text in a source that is not in Go, which does not work inside a guest.
type useless struct {
	text string
	with []string // one of them must follow in the line, if there are any
	why  string
}

// uselessTexts are by file extension.
var uselessTexts = map[string][]useless{
	".rs":  {{"std::net::", []string{"TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs", "*"}, "reaches no network in a guest: use prober::net"}},
	".c":   sockets,
	".h":   sockets,
	".cpp": sockets,
	".cc":  sockets,
	".hpp": sockets,
	".ts": {
		{text: "Date.now(", why: "is no function of prober's: use now"},
		{text: "Math.random(", why: "is no function of prober's"},
	},
}

var sockets = []useless{
	{text: "<sys/socket.h>", why: "reaches no network in a guest: use prober_dial"},
	{text: "<netdb.h>", why: "reaches no network in a guest: use prober_dial"},
}

// find returns the column of the text in a line, or 0.
func (u useless) find(line string) int {
	before, after, ok := strings.Cut(line, u.text)
	if !ok || len(u.with) > 0 && !slices.ContainsFunc(u.with, func(with string) bool { return strings.Contains(after, with) }) {
		return 0
	}
	return len(before) + 1
}

// maxSource is the largest size of a source file, in bytes.
const maxSource = 16 << 20

// vetOtherSources searches the sources of a plugin that are not in Go, line by line.
func vetOtherSources(dir string) (findings []finding, err error) {
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		switch texts := uselessTexts[filepath.Ext(file)]; {
		case err != nil:
			return err
		case d.IsDir() && file != dir && isForeign(file):
			return fs.SkipDir
		case texts != nil && !d.IsDir():
			source, err := regular.Read(file, maxSource)
			findings = append(findings, vetLines(file, string(source), texts)...)
			return err
		}
		return nil
	})
	return findings, err
}

// isForeign reports whether a folder does not belong to the plugin: it is generated by a tool, or has another
// plugin.
func isForeign(dir string) bool {
	name := filepath.Base(dir)
	_, err := os.Stat(filepath.Join(dir, plugin.ManifestFile))
	return err == nil || strings.HasPrefix(name, ".") || slices.Contains([]string{sdkFolder, "node_modules", "target", "vendor"}, name)
}

func vetLines(file, source string, texts []useless) (findings []finding) {
	number := 0
	for line := range strings.Lines(source) {
		number++
		code, _, _ := strings.Cut(line, "//")
		for _, u := range texts {
			if column := u.find(code); column > 0 {
				findings = append(findings, finding{Path: file, Line: number, Column: column, Message: strings.Trim(u.text, ":(") + " " + u.why})
			}
		}
	}
	return findings
}
