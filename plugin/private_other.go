//go:build !unix

package plugin

import (
	"io/fs"
	"os"
)

// onlyOurs accepts every folder: Windows keeps access lists instead of modes, and Go
// reports mode 0777 for each of its folders.
func onlyOurs(string, os.FileInfo) error { return nil }

// OnlyOwnerWrites returns an error if others than its owner may write to the file or folder
// called name. It accepts everything here; see [onlyOurs].
func OnlyOwnerWrites(string, fs.FileInfo) error { return nil }

// CheckFolders returns an error if others can put another file in the place of the one at
// path. It accepts everything here; see [onlyOurs].
func CheckFolders(string) error { return nil }
