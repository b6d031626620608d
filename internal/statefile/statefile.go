// Package statefile reads and writes the small files in which an agent keeps its state over restarts: JSON
// objects with a version.
package statefile

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
)

// maxSize is the limit of a file, in bytes.
const maxSize = 16 << 20

// Read reads the object in a file of the given version into the value at to. Other users must not be able to
// write the file. A file that does not exist is [io/fs.ErrNotExist].
func Read(path string, version int, to any) error {
	f, err := ownership.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := regular.ReadAll(f, path, maxSize)
	if err != nil {
		return err
	}
	var head struct{ Version int }
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Version != version {
		return fmt.Errorf("unknown version %d", head.Version)
	}
	return json.Unmarshal(text, to)
}

// Write replaces a file. content has the version in a field "version". Only the user of the agent can read the
// file. Write leaves the file as it is if [Read] would refuse the new one.
func Write(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if len(text) > maxSize {
		return fmt.Errorf("the state has %d bytes, and at most %d can be read again", len(text), maxSize)
	}
	return regular.ReplaceBytes(path, 0o600, text)
}
