package publicpage

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Dir is a folder of a web server that has only files of this package. It is not safe for concurrent use.
type Dir struct {
	root *os.Root
	path string
}

const (
	// listFile marks a folder as one of this package, and lists its files.
	listFile = ".prober-page"
	// newPrefix begins the names of files that are written.
	newPrefix = ".prober-new-"
	// staleAfter is the age of a file with newPrefix from which on its writer is gone.
	staleAfter = time.Hour
	maxList    = 64 << 20
)

// ours are the names that [Page.Write] uses.
var ours = regexp.MustCompile(`^(index(-[0-9]+)?\.html|group-[a-z0-9-]+\.html|badge(-[a-z0-9-]+)?\.svg|icon\.svg|feed\.xml)$`)

// IsOurs reports whether [Page.Write] may use the name for a file.
func IsOurs(name string) bool { return ours.MatchString(name) }

// ForeignError is returned for a folder with files of others.
type ForeignError struct {
	Path  string
	Names []string // at least one
}

// Error names up to three of the files.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s has files that are not of a public page: %s", e.Path, namesText(e.Names, len(e.Names)))
}

// OpenDir opens the folder at path, and creates it if it does not exist. A folder with files of others is a
// [*ForeignError].
func OpenDir(path string) (*Dir, error) {
	switch err := os.Mkdir(path, 0o755); {
	case err == nil:
		if err := os.Chmod(path, 0o755); err != nil { // a web server may read it, whatever the umask
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root, path: path}
	if _, err := d.files(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

// Close closes the folder.
func (d *Dir) Close() error { return d.root.Close() }

// files returns the names of the present files. A file of others is an error.
func (d *Dir) files() (names []string, err error) {
	listed, err := d.listed()
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var foreign []string
	for _, e := range entries {
		name := e.Name()
		_, found := slices.BinarySearch(listed, name)
		switch {
		case e.Type().IsRegular() && (name == listFile || strings.HasPrefix(name, newPrefix)):
		case e.Type().IsRegular() && found && IsOurs(name):
			names = append(names, name)
		default:
			foreign = append(foreign, fmt.Sprintf("%.100q", name))
		}
	}
	if len(foreign) > 0 {
		return nil, &ForeignError{d.path, foreign}
	}
	return names, nil
}

// listed returns the names in listFile, sorted.
func (d *Dir) listed() ([]string, error) {
	f, err := d.root.OpenFile(listFile, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxList))
	names := strings.Fields(string(text))
	slices.Sort(names)
	return names, err
}

// Replace replaces all files of the folder by those that write passes to put. A reader of a file sees the old
// or the new one. If write or put returns an error, the old files stay. Files whose contents are equal are not written.
func (d *Dir) Replace(write func(put func(name string, data []byte) error) error) (err error) {
	old, err := d.files()
	if err != nil {
		return err
	}
	next := replacement{root: d.root, names: make(map[string]string), suffix: "-" + rand.Text()[:8]}
	defer func() { err = errors.Join(err, next.clean()) }()
	if err := write(next.put); err != nil {
		return err
	}
	all := slices.Clone(old)
	var names []string
	for name := range next.names {
		all, names = append(all, name), append(names, name)
	}
	if err := next.list(all); err != nil { // a crash leaves no file that is not in the list
		return err
	}
	if err := next.install(names); err != nil {
		return err
	}
	for _, name := range old {
		if _, ok := next.names[name]; !ok {
			if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return next.list(names)
}

// replacement are the new files of a folder, before they are installed.
type replacement struct {
	root   *os.Root
	names  map[string]string // by their final names; "" for a file that is as it was
	suffix string            // unique for each writer
}

// put writes a new file beside the old one.
func (n *replacement) put(name string, data []byte) error {
	if _, ok := n.names[name]; ok || !IsOurs(name) {
		return fmt.Errorf("%.100q cannot be a file of the page", name)
	}
	if n.equal(name, data) {
		n.names[name] = ""
		return nil
	}
	temporary := newPrefix + name + n.suffix
	n.names[name] = temporary
	return n.write(temporary, data)
}

// equal reports whether a file has the contents data.
func (n *replacement) equal(name string, data []byte) bool {
	f, err := n.root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(len(data))+1))
	return err == nil && bytes.Equal(text, data)
}

// write writes a file that a web server may read. A crash of the host may damage it; the next export repairs it.
func (n *replacement) write(name string, data []byte) error {
	f, err := n.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

// list replaces the list of files.
func (n *replacement) list(names []string) error {
	slices.Sort(names)
	temporary := newPrefix + "list" + n.suffix
	if err := n.write(temporary, []byte(strings.Join(slices.Compact(names), "\n")+"\n")); err != nil {
		return errors.Join(err, n.root.Remove(temporary))
	}
	return n.root.Rename(temporary, listFile)
}

// install gives the new files their names, the index last, so that its links lead to files that exist.
func (n *replacement) install(names []string) error {
	slices.SortFunc(names, func(a, b string) int {
		if last := fromBool(a == indexFile) - fromBool(b == indexFile); last != 0 {
			return last
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if temporary := n.names[name]; temporary != "" {
			if err := n.root.Rename(temporary, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// clean removes files that were not installed, also of a writer that was killed.
func (n *replacement) clean() error {
	entries, err := fs.ReadDir(n.root.FS(), ".")
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), newPrefix) {
			continue
		}
		info, infoErr := e.Info()
		own := strings.HasSuffix(e.Name(), n.suffix)
		if own || infoErr == nil && time.Since(info.ModTime()) > staleAfter {
			if removeErr := n.root.Remove(e.Name()); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
				err = errors.Join(err, removeErr)
			}
		}
	}
	return err
}
