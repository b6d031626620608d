// Package statefile reads and writes the small files in which an agent keeps its state over restarts: JSON
// objects with a version. A file that cannot be read is kept under another name.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
)

// Suffix is added to the name of a file that cannot be read.
const Suffix = ".unreadable"

// defaultMax is the default of [File.Max].
const defaultMax = 16 << 20

// File is a state file. Path, Log and Lost are required.
type File struct {
	Path    string
	Version int   // of the contents
	Max     int64 // size limit, in bytes; 0: 16 MiB
	Sync    bool  // Save returns when the contents are on the disk
	Log     *slog.Logger
	// Lost is the message of the log if the file cannot be read. It says what that means, such as "the pauses
	// of an earlier agent cannot be read: their probes run".
	Lost string
}

// Load reads the object in the file into the value at to, and reports whether there is one. Other users must not be
// able to write the file. It keeps a file that cannot be read, or has another version, as [Keep] does.
func (f *File) Load(to any) bool {
	err := f.read(to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil
	}
	Keep(f.Log, f.Lost, f.Path, err)
	return false
}

func (f *File) read(to any) error {
	text, err := Read(f.Path, f.max())
	if err != nil {
		return err
	}
	var head struct{ Version int }
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Version != f.Version {
		return fmt.Errorf("unknown version %d", head.Version)
	}
	return json.Unmarshal(text, to)
}

func (f *File) max() int64 {
	if f.Max > 0 {
		return f.Max
	}
	return defaultMax
}

// Read returns the contents of a file with at most most bytes. Other users must not be able to write the file.
func Read(path string, most int64) ([]byte, error) {
	f, err := ownership.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return regular.ReadAll(f, path, most)
}

// Keep renames a file that cannot be read because of err, so that the next save does not destroy it: [Suffix] is added
// to its name, and an earlier file of that name is replaced. It logs lost, and whether the file was kept. An empty file,
// a folder or a link, which have no state, stay where they are.
func Keep(log *slog.Logger, lost, path string, err error) {
	if info, failed := os.Lstat(path); failed == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		log.Warn(lost, "file", path, "err", err)
		return
	}
	report(log, lost, path, err, os.Rename(path, path+Suffix))
}

// KeepCopy is [Keep] for a file with the contents data that stays, since a part of it was read.
func KeepCopy(log *slog.Logger, lost, path string, err error, data []byte) {
	report(log, lost, path, err, regular.ReplaceBytes(path+Suffix, 0o600, data))
}

// report logs that a file cannot be read because of err. failed is the error of keeping it.
func report(log *slog.Logger, lost, path string, err, failed error) {
	attrs := []any{"file", path, "err", err, "kept", path + Suffix}
	if failed != nil {
		attrs = append(attrs[:4], "notKept", failed)
	}
	log.Warn(lost, attrs...)
}

// Save replaces the file. content has the version in a field "version". Only the user of the agent can read the
// file. Save leaves the file as it is if Load would refuse the new one.
func (f *File) Save(content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if int64(len(text)) > f.max() {
		return fmt.Errorf("the state has %d bytes, and at most %d can be read again", len(text), f.max())
	}
	return regular.Replace(f.Path, 0o600, func(to *os.File) error {
		_, err := to.Write(text)
		if f.Sync {
			err = errors.Join(err, to.Sync())
		}
		return err
	})
}
