package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace creates or replaces the file at path, with the mode perm. write writes the contents,
// and calls Sync if they must survive a crash of the host. A reader of path sees either the old file or
// the whole new one. After an error, the old file is unchanged. Replace does not follow a link at path.
func Replace(path string, perm fs.FileMode, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	err = errors.Join(f.Chmod(perm), write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// ReplaceBytes is [Replace] with the contents data.
func ReplaceBytes(path string, perm fs.FileMode, data []byte) error {
	return Replace(path, perm, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// ReplaceBytesIn is [ReplaceBytes] for the file called name in root. It does not follow links out of root. It must not
// be called concurrently for one name.
func ReplaceBytesIn(root *os.Root, name string, perm fs.FileMode, data []byte) error {
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
	if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an interrupted call
		return err
	}
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(f.Chmod(perm), err, f.Close())
	if err == nil {
		err = root.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(next))
	}
	return nil
}
