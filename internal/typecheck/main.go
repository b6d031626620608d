// Typecheck type-checks the packages below the working directory and their tests for other platforms. It
// finds code that does not compile there, such as a constant that overflows a 32-bit int.
//
// The compiler must compile every dependency for each platform first, which takes minutes. Typecheck reads the
// source of dependencies instead, without function bodies.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: typecheck GOOS/GOARCH...")
		os.Exit(64)
	}
	c := checker{dir: ".", fset: token.NewFileSet(), files: map[string]*source{}}
	code := 0
	for _, platform := range os.Args[1:] {
		if err := c.check(platform); err != nil {
			fmt.Fprintf(os.Stderr, "%s:\n%v\n", platform, err)
			code = 1
		}
	}
	os.Exit(code)
}

// checker keeps the parsed files, since platforms share most of them.
type checker struct {
	dir  string
	fset *token.FileSet

	mu    sync.Mutex
	files map[string]*source
}

type source struct {
	parse sync.Once
	file  *ast.File
	err   error
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles, SFiles []string
	ImportMap       map[string]string
	Module          *struct {
		GoVersion string
		Main      bool
	}

	done    chan struct{} // closed when types and err are set
	types   *types.Package
	problem error
}

func (p *listed) own() bool { return p.Module != nil && p.Module.Main }

// check type-checks every package for platform. Its error joins every problem.
func (c *checker) check(platform string) error {
	system, arch, _ := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", arch)
	if sizes == nil {
		return fmt.Errorf("unknown processor %q", arch)
	}
	order, err := c.list(system, arch)
	if err != nil {
		return err
	}
	packages := map[string]*listed{}
	for _, p := range order {
		packages[p.ImportPath] = p
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range order { // dependencies come first, so a package with a slot waits only for packages that have had one
		slots <- struct{}{}
		go func() {
			defer func() { close(p.done); <-slots }()
			p.problem = c.checkPackage(p, sizes, packages)
		}()
	}
	var problems []error
	for _, p := range order {
		<-p.done
		problems = append(problems, p.problem)
	}
	return errors.Join(problems...)
}

// list returns the packages, their tests and their dependencies. Each package comes after its dependencies.
func (c *checker) list(system, arch string) ([]*listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,SFiles,ImportMap,Module", "./...")
	cmd.Dir, cmd.Stderr = c.dir, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var order []*listed
	for decoder := json.NewDecoder(out); ; {
		p := &listed{done: make(chan struct{})}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		if !strings.HasSuffix(p.ImportPath, ".test") { // skip generated main packages of tests
			order = append(order, p)
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return order, nil
}

func (c *checker) checkPackage(p *listed, sizes types.Sizes, packages map[string]*listed) error {
	if p.ImportPath == "unsafe" {
		p.types = types.Unsafe
		return nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := c.parse(filepath.Join(p.Dir, name), p.own())
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	var problems []error
	config := types.Config{
		IgnoreFuncBodies: !p.own(),
		Sizes:            sizes,
		Error:            func(err error) { problems = append(problems, err) },
		Importer: importer(func(path string) (*types.Package, error) {
			if other := p.ImportMap[path]; other != "" {
				path = other
			}
			q := packages[path]
			if q == nil {
				return nil, fmt.Errorf("go list has no %s", path)
			}
			<-q.done
			if q.types == nil {
				return nil, fmt.Errorf("%s was not checked", path)
			}
			return q.types, nil
		}),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // a variant for a test is "path [package.test]"
	p.types, _ = config.Check(path, c.fset, files, nil)
	if p.own() && len(p.SFiles) == 0 {
		problems = append(problems, c.bodiless(files)...)
	}
	return errors.Join(problems...)
}

// bodiless returns an error for each function without a body, which only assembly could define.
func (c *checker) bodiless(files []*ast.File) (problems []error) {
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body == nil {
				problems = append(problems, fmt.Errorf("%s: %s has no body, and the package no assembly", c.fset.Position(f.Pos()), f.Name.Name))
			}
		}
	}
	return problems
}

// parse returns the file at path. Without bodies, functions are empty, which saves memory.
func (c *checker) parse(path string, bodies bool) (*ast.File, error) {
	c.mu.Lock()
	s := c.files[path]
	if s == nil {
		s = &source{}
		c.files[path] = s
	}
	c.mu.Unlock()
	s.parse.Do(func() {
		if s.file, s.err = parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution); s.err != nil || bodies {
			return
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				f.Body.List = nil
			}
		}
	})
	return s.file, s.err
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
