package history

import (
	"io"
	"io/fs"
	"os"
)

// disk is the file system, for tests of disks that fail.
type disk interface {
	MkdirAll(dir string) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	Open(path string) (file, error)
	Create(path string) (file, error) // it must not exist
	Append(path string) (file, error) // opens it to write
	Rename(from, to string) error
	Remove(path string) error
	SyncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// osDisk is that of the system.
type osDisk struct{}

func (osDisk) MkdirAll(dir string) error                 { return os.MkdirAll(dir, 0o700) }
func (osDisk) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }
func (osDisk) Rename(from, to string) error              { return os.Rename(from, to) }
func (osDisk) Remove(path string) error                  { return os.Remove(path) }

func (osDisk) Open(path string) (file, error) { return opened(os.Open(path)) }

func (osDisk) Create(path string) (file, error) {
	return opened(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

func (osDisk) Append(path string) (file, error) { return opened(os.OpenFile(path, os.O_RDWR, 0o600)) }

// opened returns no file if there is an error.
func opened(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// SyncDir makes the names in dir durable. Systems that cannot do that say so, which is no error.
func (osDisk) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = f.Sync()
	return nil
}
