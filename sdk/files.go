package sdk

import "github.com/daeace23/prober/internal/abi"

// FileInfo describes a file of the host: its Type ("file", "directory", "fifo", "socket", "device" or "other"), its
// Size in bytes, its permissions (Mode), when it was Modified, and its owner.
type FileInfo = abi.FileInfo

// FilesystemInfo has the numbers of a file system of the host, in bytes and inodes.
type FilesystemInfo = abi.FilesystemInfo

// FileEntry is an entry of a folder: its Name, and its Type as in a [FileInfo], or "symlink".
type FileEntry = abi.FileEntry
