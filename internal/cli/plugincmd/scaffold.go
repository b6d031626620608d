package plugincmd

import (
	"embed"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/daeace23/prober"
	"github.com/daeace23/prober/docs"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// scaffolds has the files of new projects:
//
//	common                 of every project
//	kind/KIND              the manifest and the cases
//	lang/LANGUAGE          what the tools of a language read
//	source/LANGUAGE/KIND   the source
//
// A file of a later folder replaces one of an earlier folder.
//
//go:embed scaffold
var scaffolds embed.FS

// kind is what a new plugin does, or how it runs.
type kind struct {
	name  string
	does  string   // for its README
	try   string   // arguments of prober probe plugin
	langs []string // the first is the default
}

const kindLine, kindCommand, kindProcess, kindNagios = "line", "command", "process", "nagios"

func kinds() []kind {
	sdks := []string{langGo, langRust, langC, langCPP, langAssemblyScript}
	return []kind{
		{kindLine, "reads a line from a server", `--target mail.example.com:25 --config '{"expect": "220"}'`, append(sdks, langWAT)},
		{"http", "gets a page of an HTTP server", `--target example.com:80 --config '{"contains": "Example"}'`, sdks},
		{"udp", "sends a datagram to a server and reads the answer", `--target echo.example.com:7 --config '{"send": "PING", "expect": "PING"}'`, sdks},
		{"tls", "checks when the certificate of a server ends", `--target example.com:443 --config '{"warnDays": 30}'`, sdks},
		{kindCommand, "counts the days until a date, as a WASI program", `--config '{"date": "2030-01-01"}'`, []string{langGo, langRust, langC, langCPP}},
		{kindProcess, "reads a line from a server", `--target mail.example.com:25 --config '{"expect": "220"}'`, []string{langGo, langPython}},
		{kindNagios, "counts the entries of a folder", "", []string{langShell, langPython}},
	}
}

func kindNames() (names []string) {
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) kind {
	all := kinds()
	return all[slices.IndexFunc(all, func(k kind) bool { return k.name == name })]
}

// project is what the projects of a language have in the files that all languages share.
type project struct {
	title    string
	source   string
	needs    string   // to build
	native   []string // commands besides prober's, and what they do
	makeTest []string // those that make runs
	ignore   string   // for .gitignore
	notes    string   // for the README
	setup    string   // steps of the CI workflow that install compilers
}

// apt is the step of a CI workflow that installs Debian packages.
func apt(packages string) string {
	return "    - run: sudo apt-get update && sudo apt-get install -y --no-install-recommends " + packages + "\n"
}

const copyOf = "`prober-sdk` is a copy of the SDK from the prober that made this folder. `prober plugin update-sdk` replaces it.\n"

const clangd = "Editors with clangd read `compile_flags.txt`.\n"

func projectIn(lang string) project {
	return map[string]project{
		langGo: {
			title: "Go", source: "main.go", needs: "The build needs Go 1.26 and nothing else.",
			native: []string{"go test ./...              # runs the same source natively"}, makeTest: []string{"go test ./..."},
			setup: "    - uses: actions/setup-go@d35c59abb061a4a6fb18e82ac0862c26744d6ab5 # v5.5.0\n      with: {go-version: '1.26'}\n",
		},
		langRust: {
			title: "Rust", source: "src/lib.rs",
			needs: "The build needs `cargo` and `rustc` 1.63 or later with its standard library for WebAssembly:\n" +
				"Debian's packages `cargo`, `lld` and `libstd-rust-dev-wasm32`, or `rustup target add wasm32-wasip1`.",
			native: []string{
				"cargo test                 # runs the tests of the source natively",
				"cargo clippy --no-deps     # reports likely mistakes in Rust",
			},
			makeTest: []string{"cargo test"}, ignore: "/target/\n",
			notes: "\nThe plugin may use other crates that build for `wasm32-wasip1`: add them to `Cargo.toml`. To build without a\n" +
				"network, commit the folder that `cargo vendor` makes, with the lines that it prints in `.cargo/config.toml`.\n",
			setup: "    - run: rustup toolchain install 1.90.0 --profile minimal --target wasm32-wasip1 && rustup default 1.90.0\n",
		},
		langC: {
			title: "C", source: "main.c", needs: "The build needs Debian's packages `clang` and `lld`.",
			notes: clangd, setup: apt("clang lld"),
		},
		langCPP: {
			title: "C++", source: "main.cpp", needs: "The build needs Debian's packages `clang` and `lld`.",
			notes: clangd, setup: apt("clang lld"),
		},
		langAssemblyScript: {
			title: "AssemblyScript", source: "index.ts", needs: "The build needs `asc`, which `npm install` puts into `node_modules`.",
			native: []string{
				"npm run build              # the same as prober plugin build",
				"npm test                   # the same as prober plugin test",
			},
			ignore: "/node_modules/\n",
			notes:  "The SDK is the package `prober` of `package.json`, so that editors find its types.\n",
			setup: "    - uses: actions/setup-node@49933ea5288caeca8642d1e84afbd3f7d6820020 # v4.4.0\n      with: {node-version: '22'}\n" +
				"    - run: npm install --no-audit --no-fund\n",
		},
		langWAT: {
			title: "the text format of WebAssembly", source: "{{.Name}}.wat",
			needs: "It uses the plugin contract without an SDK, and explains it. The build needs `wat2wasm`, of Debian's package `wabt`.",
			setup: apt("wabt"),
		},
		langPython: {
			title: "Python", source: "check.py", makeTest: []string{"python3 check_test.py"}, ignore: "__pycache__/\n",
			setup: apt("python3-grpcio python3-cryptography"),
		},
		langShell: {title: "shell"},
	}[lang]
}

// files returns the files of a new project by path.
func (p newProject) files() (map[string][]byte, error) {
	files, err := p.sdk()
	if err != nil {
		return nil, err
	}
	values, err := p.values()
	if err != nil {
		return nil, err
	}
	for _, folder := range p.folders() {
		if err := p.add(files, path.Join("scaffold", folder), values); err != nil {
			return nil, err
		}
	}
	if readme, ok := withDocs(files["README.md"], nil); ok {
		m, err := plugin.ParseManifest(plugin.ManifestFile, files[plugin.ManifestFile])
		if err != nil {
			return nil, err
		}
		files["README.md"], _ = withDocs(readme, docsOf(m))
	}
	if !p.hasSDK() {
		maps.DeleteFunc(files, func(path string, _ []byte) bool { return strings.HasPrefix(path, sdkFolder+"/") })
	} else {
		files[sdkFolder+"/"+sumsFile] = sumsOf(files, p.version)
	}
	if p.kind == kindProcess && p.lang == langGo { // its main functions are in separate files
		files["check.go"] = []byte(strings.Replace(string(files["main.go"]), mainOfGuest, "", 1))
		delete(files, "main.go")
	}
	return files, nil
}

// add adds the files of a scaffold to files, with values filled in.
func (p newProject) add(files map[string][]byte, folder string, values *strings.Replacer) error {
	return fs.WalkDir(scaffolds, folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := scaffolds.ReadFile(file)
		files[p.path(strings.TrimPrefix(file, folder+"/"))] = []byte(values.Replace(values.Replace(string(text))))
		return err
	})
}

// mainOfGuest is the part of source/go/line/main.go that a process does not have.
const mainOfGuest = "// main never runs. The plugin starts with init.\nfunc main() {}\n\n"

// folders returns the folders with the files of the project.
func (p newProject) folders() []string {
	does := p.kind
	if does == kindProcess {
		does = kindLine // runs in another way
	}
	folders := []string{"common", "kind/" + does, "lang/" + p.lang}
	if p.lang == langCPP && p.kind != kindLine { // the source is C that is C++ too
		folders = append(folders, "source/c/"+does)
	}
	folders = append(folders, "source/"+p.lang+"/"+does)
	if p.kind == kindProcess {
		folders = append(folders, "source/"+p.lang+"/"+p.kind)
	}
	return slices.DeleteFunc(folders, func(folder string) bool {
		_, err := fs.Stat(scaffolds, "scaffold/"+folder)
		return err != nil
	})
}

// runtime returns how the plugin runs.
func (p newProject) runtime() plugin.Runtime {
	switch p.kind {
	case kindProcess:
		return plugin.Process
	case kindNagios:
		return plugin.Nagios
	default:
		return plugin.Wasm
	}
}

// hasSDK reports whether the plugin is built with an SDK.
func (p newProject) hasSDK() bool {
	return p.kind != kindCommand && p.lang != langWAT && p.lang != langShell
}

// sdk returns the copy of the SDK, as files of the project.
func (p newProject) sdk() (map[string][]byte, error) {
	var (
		sources map[string][]byte
		err     error
	)
	switch {
	case p.kind == kindProcess && p.lang == langGo:
		sources, err = prober.ProcessSDK()
	case p.lang == langCPP:
		sources, err = prober.SDK(langC)
	case p.hasSDK():
		sources, err = prober.SDK(p.lang)
	}
	files := make(map[string][]byte, len(sources))
	for file, data := range sources {
		files[sdkFolder+"/"+file] = data
	}
	return files, err
}

// values returns the replacements for {{…}} in scaffolds.
func (p newProject) values() (*strings.Replacer, error) {
	built, runtime := p.name+".wasm", ""
	if p.kind == kindProcess {
		built, runtime = plugin.ProcessPrefix+p.name, "runtime: process\n"
	}
	modules, sums, err := prober.ProcessModules()
	require := "require (\n\t" + strings.Join(modules, " // indirect\n\t") + " // indirect\n)"
	of, k := projectIn(p.lang), kindOf(p.kind)
	if p.hasSDK() {
		of.notes = copyOf + of.notes
	}
	if p.kind == kindNagios {
		of.source, of.makeTest = "check_"+p.name, nil
		if of.notes != "" {
			of.notes += "\n"
		}
	}
	native, makeTest := "", ""
	for _, line := range of.native {
		native += "    " + line + "\n"
	}
	for _, line := range of.makeTest {
		makeTest += "\t" + line + "\n"
	}
	return strings.NewReplacer("{{.PluginSchema}}", docs.SchemaURL(docs.SchemaOfPlugin), "{{.TestSchema}}", docs.SchemaURL(docs.SchemaOfTest),
		"{{.Name}}", p.name, "{{.Lang}}", p.lang, "{{.Crate}}", crateName(p.name), "{{.Built}}", built,
		"{{.Runtime}}", runtime, "{{.Require}}", require, "{{.Sums}}", string(sums),
		"{{.Title}}", of.title, "{{.Source}}", of.source, "{{.Needs}}", of.needs, "{{.Native}}", native, "{{.MakeTest}}", makeTest,
		"{{.Ignore}}", of.ignore, "{{.Notes}}", of.notes, "{{.Setup}}", of.setup, "{{.Does}}", k.does, "{{.Try}}", k.try), err
}

// path returns the path in the project of a file of a scaffold.
func (p newProject) path(file string) string {
	switch file = strings.TrimSuffix(file, ".tmpl"); {
	case file == "gitignore" || strings.HasPrefix(file, "github/"):
		return "." + file
	case file == "sdk.go.mod":
		return sdkFolder + "/go.mod"
	case file == "test.yaml":
		return p.name + plugintest.Suffix
	case file == "main.wat":
		return p.name + ".wat"
	case file == "check.sh", file == "check.py" && p.kind == kindNagios:
		return "check_" + p.name
	case file == "main.c" && p.lang == langCPP:
		return "main.cpp"
	default:
		return file
	}
}
