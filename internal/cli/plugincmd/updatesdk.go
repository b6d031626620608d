package plugincmd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

func newUpdateSDK(env *command.Env) *cobra.Command {
	var force, dryRun bool
	c := &cobra.Command{
		Use:   "update-sdk [DIR]",
		Short: "Replace the SDK in a project by the one of this prober",
		Long: "Update-sdk replaces the files of " + sdkFolder + " that prober wrote, and prints the name of each\n" +
			"that changes. It touches no other file. If one of these files was modified since, it changes\n" +
			"nothing, unless --force is set. " + sdkFolder + "/" + sumsFile + " says which they are.",
		Example: "  prober plugin update-sdk demo --dry-run\n  prober plugin update-sdk demo && prober plugin build demo && prober plugin test demo",
		Args:    command.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			return updateSDK(env, folderOf(args), force, dryRun)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace modified files, too")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change")
	return c
}

// sumsFile lists the files of the SDK in a project with their digests, as sha256sum does.
const sumsFile = "SHA256SUMS"

// maxSums is the largest size of sumsFile, in bytes.
const maxSums = 1 << 20

// sumsOf returns the contents of sumsFile for the files below sdkFolder, for a version of prober.
func sumsOf(files map[string][]byte, version string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The SDK of prober %s. `prober plugin update-sdk` replaces these files.\n", version)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if name, ok := strings.CutPrefix(path, sdkFolder+"/"); ok && name != sumsFile {
			fmt.Fprintf(&b, "%s  %s\n", sumOf(files[path]), name)
		}
	}
	return b.Bytes()
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// openSDK opens the folder of the SDK in the project in dir. It is no link, so it is in the project.
func openSDK(dir string) (*os.Root, error) {
	path := filepath.Join(dir, sdkFolder)
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return nil, command.Usage("`prober plugin build` uses the SDK of this prober where a project has none", "%s has no folder %s", dir, sdkFolder)
	}
	project, err := os.OpenRoot(dir)
	if err != nil {
		return nil, command.Failed(err)
	}
	defer project.Close()
	sdk, err := project.OpenRoot(sdkFolder)
	if err != nil {
		return nil, command.Failed(err)
	}
	return sdk, nil
}

// inSDK returns the name of a file in the folder of the SDK. path is slash-separated, and starts with sdkFolder.
func inSDK(path string) string { return filepath.FromSlash(strings.TrimPrefix(path, sdkFolder+"/")) }

// readSums returns the digests in sumsFile by path, as in [newProject.files]. It is empty if there is no such file.
func readSums(sdk *os.Root) (map[string]string, error) {
	path := filepath.Join(sdk.Name(), sumsFile)
	text, err := regular.ReadIn(sdk, sumsFile, maxSums)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sums := make(map[string]string)
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		sum, name, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "  ")
		switch {
		case strings.HasPrefix(line, "#"):
		case !ok || len(sum) != 2*sha256.Size || !filepath.IsLocal(filepath.FromSlash(name)):
			return nil, fmt.Errorf("%s:%d: want a digest, two spaces, and a path", path, number)
		default:
			sums[sdkFolder+"/"+name] = sum
		}
	}
	return sums, nil
}

// updateSDK replaces the files of the SDK in the project in dir.
func updateSDK(env *command.Env, dir string, force, dryRun bool) error {
	files, err := sdkFor(dir, env.Version)
	if err != nil {
		return err
	}
	sdk, err := openSDK(dir)
	if err != nil {
		return err
	}
	defer sdk.Close()
	known, err := readSums(sdk)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	changes, err := changesOf(sdk, files, known)
	if err != nil {
		return command.Failed(err)
	}
	if len(changes.modified) > 0 && !force {
		hint := "--force replaces them"
		if known == nil {
			hint = "there is no " + sumsFile + ", so it is not known whether you modified them; " + hint
		}
		return &command.Exit{Code: command.ExitFailed, Hint: hint,
			Err: fmt.Errorf("%s: nothing was changed: modified files of the SDK: %s", dir, strings.Join(changes.modified, ", "))}
	}
	if !dryRun {
		if err := changes.apply(sdk, files); err != nil {
			return command.Failed(err)
		}
	}
	for _, line := range changes.lines {
		fmt.Fprintln(env.Stdout, line)
	}
	switch {
	case len(changes.lines) == 0:
		fmt.Fprintf(env.Stdout, "the SDK in %s is that of prober %s\n", dir, env.Version)
	case slices.Contains(changes.lines, "updated "+sdkFolder+"/go.mod"):
		fmt.Fprintln(env.Stderr, "prober: the modules of the SDK have changed: run `go mod tidy`")
	}
	return nil
}

// sdkFor returns the files of this prober's SDK for the project in dir, by path.
func sdkFor(dir, version string) (map[string][]byte, error) {
	manifest, _, err := readProject(dir)
	if err != nil {
		return nil, err
	}
	lang, err := languageOf(dir)
	if err != nil {
		return nil, err
	}
	p := newProject{name: manifest.Name, lang: lang.name, kind: kindLine, version: version}
	if manifest.Runtime == plugin.Process {
		p.kind = kindProcess
	}
	files, err := p.files()
	if err != nil {
		return nil, command.Failed(err)
	}
	maps.DeleteFunc(files, func(path string, _ []byte) bool { return !strings.HasPrefix(path, sdkFolder+"/") })
	return files, nil
}

// sdkChanges are the differences between the SDK in a project and another one. Paths are slash-separated.
type sdkChanges struct {
	lines    []string // for the user
	write    []string // paths of new and different files
	remove   []string // paths that the other one does not have
	modified []string // paths among these whose files prober did not write
}

// changesOf compares the SDK of a project with the files of another one. known has the digests of the files that
// prober wrote.
func changesOf(sdk *os.Root, files map[string][]byte, known map[string]string) (c sdkChanges, err error) {
	paths := slices.Collect(maps.Keys(files))
	for path := range known {
		if files[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		now, err := regular.ReadIn(sdk, inSDK(path), maxSource)
		there := !errors.Is(err, fs.ErrNotExist)
		if err != nil && there {
			return c, err
		}
		want, wanted := files[path]
		switch {
		case wanted && there && bytes.Equal(now, want), !wanted && !there:
			continue
		case !wanted:
			c.remove, c.lines = append(c.remove, path), append(c.lines, "removed "+path)
		case there:
			c.write, c.lines = append(c.write, path), append(c.lines, "updated "+path)
		default:
			c.write, c.lines = append(c.write, path), append(c.lines, "added "+path)
		}
		if there && known[path] != sumOf(now) && path != sdkFolder+"/"+sumsFile {
			c.modified = append(c.modified, path)
		}
	}
	return c, nil
}

// apply writes and removes files of the SDK. It writes sumsFile last: until then, files that it changed are as in files,
// and the others as in sumsFile, so that another run can complete an interrupted one.
func (c sdkChanges) apply(sdk *os.Root, files map[string][]byte) error {
	for _, path := range c.remove {
		if err := sdk.Remove(inSDK(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	const sums = sdkFolder + "/" + sumsFile
	for _, path := range c.write {
		if path == sums {
			continue
		}
		if err := sdk.MkdirAll(filepath.Dir(inSDK(path)), 0o755); err != nil {
			return err
		}
		if err := regular.ReplaceBytesIn(sdk, inSDK(path), 0o644, files[path]); err != nil {
			return err
		}
	}
	if !slices.Contains(c.write, sums) {
		return nil
	}
	return regular.ReplaceBytesIn(sdk, sumsFile, 0o644, files[sums])
}
