package importcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/regular"
)

// input is a file of another tool.
type input struct {
	name string
	text []byte
}

// importer reads the files of one tool.
type importer struct {
	tool    string
	product string // the name of the tool, for people
	long    string
	example string
	plugins bool // has --plugins
	// read adds its findings to p. Its error means that a file cannot be read, and names the place.
	read func(p *plan, files []input) error
}

var importers = []importer{
	{
		tool: "blackbox", product: "blackbox_exporter", read: readBlackbox,
		long: "FILE is a blackbox.yml with modules, or a prometheus.yml with scrape jobs of the exporter, whose targets\n" +
			"become groups.",
		example: "  prober import blackbox blackbox.yml prometheus.yml -o prober.yaml",
	},
	{
		tool: "gatus", product: "Gatus", read: readGatus,
		long:    "FILE is a config.yaml. Several files are read in their order.",
		example: "  prober import gatus config.yaml -o prober.yaml",
	},
	{
		tool: "monit", product: "monit", read: readMonit,
		long: "FILE is a control file, such as /etc/monit/monitrc. Files of include are not read: name them too.\n" +
			"Pods run programs: checks of processes become probes of their ports only.",
		example: "  prober import monit /etc/monit/monitrc /etc/monit/conf.d/* -o prober.yaml",
	},
	{
		tool: "nagios", product: "Nagios", read: readNagios, plugins: true,
		long: "FILE is a file of object definitions, a nagios.cfg or a resource.cfg with $USER1$. Files that cfg_file and\n" +
			"cfg_dir name are not read: name them too.",
		example: "  prober import nagios nagios.cfg resource.cfg objects/*.cfg -o prober.yaml --plugins plugins",
	},
	{
		tool: "uptime-kuma", product: "Uptime Kuma", read: readKuma,
		long:    "FILE is a backup in JSON, as Settings, Backup, Export writes it.",
		example: "  prober import uptime-kuma Uptime_Kuma_Backup.json -o prober.yaml",
	},
	{
		tool: "cloudprober", product: "cloudprober", read: readCloudprober,
		long: "FILE is a cloudprober.cfg in protobuf's text format, or a .yaml or .json. Templates and includes are not\n" +
			"expanded: use the output of cloudprober --dumpconfig.",
		example: "  cloudprober --config_file cloudprober.cfg --dumpconfig > all.cfg\n  prober import cloudprober all.cfg -o prober.yaml",
	},
}

// maxInput and maxFiles bound the files, in bytes and in number.
const (
	maxInput = 8 << 20
	maxFiles = 1000
)

// New returns the command `prober import`. validate checks what would be written.
func New(env *command.Env, validate Validate) *cobra.Command {
	all := make([]*cobra.Command, len(importers))
	for i := range importers {
		all[i] = newImport(env, &importers[i], validate)
	}
	c := command.Folder("import", "Write a prober.yaml for the configuration of another tool", all...)
	c.Long = "Write a prober.yaml for the configuration of another tool. Nothing of it is dropped silently: stderr has a\n" +
		"line for each field that has no equal. Passwords and tokens are not written to prober.yaml: it refers to\n" +
		"files, and stderr says what belongs there. --write-secrets writes these files too."
	return c
}

// run is one run of `prober import TOOL`.
type run struct {
	*importer
	env      *command.Env
	validate Validate
	out      string // file; "": stdout
	plugins  string // folder for manifests; "": none
	secrets  bool   // write files with secrets
	findings string // format
}

func newImport(env *command.Env, i *importer, validate Validate) *cobra.Command {
	r := &run{importer: i, env: env, validate: validate, findings: "text"}
	c := &cobra.Command{
		Use:   i.tool + " FILE...",
		Short: "Write a prober.yaml for the configuration of " + i.product,
		Long: "Write a prober.yaml for the configuration of " + i.product + ", to stdout or to the file of -o.\n\n" + i.long + "\n\n" +
			"stderr has a line for each field that has no equal, has another meaning, is ignored, or has a secret, with\n" +
			"file and line. What is written passes prober validate.\n\n" +
			"Exit code 0 all was imported, 1 something has no equal, 64 wrong usage or an invalid file.",
		Example: i.example,
		Args:    command.AtLeast("a file"),
		RunE:    func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	command.FileFlag(c, &r.out, "o", "out", "", "file to write, which must not exist; - or none writes to stdout")
	c.Flags().BoolVar(&r.secrets, "write-secrets", false, "write the passwords and tokens of FILE to files in the folder secrets beside the file of -o")
	command.NotFromEnv(c.Flags().Lookup("write-secrets"))
	c.Flags().Var(command.OneOf(&r.findings, "text", command.JSON), "findings", "format of the lines on stderr")
	command.NotFromEnv(c.Flags().Lookup("findings"))
	if i.plugins {
		command.FileFlag(c, &r.plugins, "", "plugins", "", "folder to write plugin.yaml files of commands to; without it, commands become exec probes")
	}
	return c
}

func (r *run) run(ctx context.Context, paths []string) error {
	if r.out == "-" {
		r.out = ""
	}
	if r.secrets && r.out == "" {
		return command.Usage("add -o prober.yaml", "--write-secrets needs the file of -o")
	}
	for _, path := range []string{r.out, r.plugins, r.secretsDir()} {
		if _, err := os.Lstat(path); path != "" && err == nil {
			return command.Usage("remove it, or choose another path", "%s exists", path)
		}
	}
	files, err := readFiles(ctx, paths)
	if err != nil {
		return err
	}
	p := newPlan()
	p.withPlugins, p.withSecrets = r.plugins != "", r.secrets
	if err := r.read(p, files); err != nil {
		return command.Usage("", "%w", err)
	}
	file, err := p.accepted(ctx, r.tool, r.validate)
	if err != nil {
		return command.Failed(err)
	}
	if err := r.write(p, file); err != nil {
		return command.Failed(err)
	}
	r.printFindings(p)
	if p.count(noEqual) > 0 || p.omitted > 0 {
		return &command.Exit{Code: command.ExitFailed}
	}
	return nil
}

// readFiles returns the contents of files. Its errors are wrong usage.
func readFiles(ctx context.Context, paths []string) (files []input, err error) {
	if len(paths) > maxFiles {
		return nil, command.Usage("", "there are more than %d files", maxFiles)
	}
	left := int64(maxInput)
	for _, path := range paths {
		text, err := regular.Input(ctx, path, left, regular.Patience)
		if err != nil {
			return nil, command.Usage("", "%w", err)
		}
		in := input{path, text}
		if err := in.check(); err != nil {
			return nil, command.Usage("", "%w", err)
		}
		left -= int64(len(text))
		files = append(files, in)
	}
	return files, nil
}

// check reports a file that is not text in UTF-8.
func (in *input) check() error {
	for i, line := range strings.Split(string(in.text), "\n") {
		if !utf8.ValidString(line) {
			return fmt.Errorf("%s:%d: is not UTF-8", in.name, i+1)
		}
		if strings.ContainsRune(line, 0) {
			return fmt.Errorf("%s:%d: has a NUL character", in.name, i+1)
		}
	}
	return nil
}

// write writes prober.yaml, and the manifests of plugins.
func (r *run) write(p *plan, file []byte) error {
	if r.plugins != "" {
		if _, err := p.writeManifests(r.plugins); err != nil {
			return err
		}
	}
	if r.out == "" {
		_, err := r.env.Stdout.Write(file)
		return err
	}
	if r.secrets {
		if err := p.writeSecrets(r.secretsDir()); err != nil {
			return err
		}
	}
	return create(r.out, file, 0o644)
}

// secretsDir returns the folder for files with secrets, which must not exist; "" for none.
func (r *run) secretsDir() string {
	if !r.secrets || r.out == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(r.out), secretsFolder)
}

// writeSecrets writes the secrets whose values are known to files in a new folder.
func (p *plan) writeSecrets(dir string) error {
	if len(p.values) == 0 {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, path := range sortedKeys(p.values) {
		if err := create(filepath.Join(dir, filepath.Base(path)), []byte(p.values[path]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// create writes a new file.
func create(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// printFindings writes the findings to stderr, and how many entries there are.
func (r *run) printFindings(p *plan) {
	encoder := json.NewEncoder(r.env.Stderr)
	encoder.SetEscapeHTML(false)
	all := p.sortedFindings()
	if r.findings != command.JSON {
		all = merged(all)
	}
	for _, f := range all {
		if r.findings == command.JSON {
			_ = encoder.Encode(f) // nobody can be told of an error of stderr
			continue
		}
		fmt.Fprintln(r.env.Stderr, f.String())
	}
	if p.omitted > 0 {
		r.env.Warn("%s more are not shown", command.Count(p.omitted, "finding"))
	}
	if r.findings != command.JSON {
		fmt.Fprintf(r.env.Stderr, "prober: %s\n", p.summary())
	}
}

// merged returns the findings with one for all ignored fields of a file that have the same text, since many tools
// write the same fields again and again. It has the names of the fields.
func merged(findings []Finding) (all []Finding) {
	type key struct{ file, text string }
	first := make(map[key]int) // indexes in all
	names := make(map[int][]string)
	for _, f := range findings {
		k := key{f.File, f.Text}
		i, again := first[k]
		if f.Kind != ignored || !again {
			i = len(all)
			all = append(all, f)
		}
		if f.Kind == ignored {
			first[k] = i
			name := f.Field
			if !strings.Contains(name, " ") {
				name = name[strings.LastIndexByte(name, '.')+1:]
			}
			if !slices.Contains(names[i], name) {
				names[i] = append(names[i], name)
			}
		}
	}
	for i, list := range names {
		all[i].Field = strings.Join(list, ", ")
	}
	return all
}

// String returns FILE:LINE: FIELD: KIND: TEXT.
func (f *Finding) String() string {
	text := fmt.Sprintf("%s:%d: ", f.File, f.Line)
	if f.Field != "" {
		text += f.Field + ": "
	}
	return explain.OneLine(text + string(f.Kind) + ": " + f.Text)
}

// summary returns how many entries and findings there are.
func (p *plan) summary() string {
	groups, pushes, receivers := 0, 0, 0
	for _, g := range p.groups {
		if !g.dropped {
			groups++
		}
	}
	for _, c := range p.pushes {
		if !c.dropped {
			pushes++
		}
	}
	for _, c := range p.receivers {
		if !c.dropped {
			receivers++
		}
	}
	return fmt.Sprintf("imported: targets in %s, %d pushed, %s; %s no equal", command.Count(groups, "group"), pushes, command.Count(receivers, "receiver"),
		have(p.count(noEqual)))
}

func have(n int) string {
	if n == 1 {
		return "1 finding has"
	}
	return fmt.Sprintf("%d findings have", n)
}
