package sdk

import (
	"context"
	"unsafe"

	"github.com/daeace23/prober/internal/abi"
)

//go:wasmimport prober_v1_files stat
func hostFileStat(path unsafe.Pointer, n uint32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_files statfs
func hostFileStatfs(path unsafe.Pointer, n uint32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_files read
func hostFileRead(path unsafe.Pointer, n uint32, offset int64, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_files list
func hostFileList(path unsafe.Pointer, n uint32, buf unsafe.Pointer, size uint32) int32

// StatFile describes a file of the host. It needs the capability "files", as do the other functions for files. path is
// absolute, without . and .. in it. A call blocks all goroutines of the guest.
func StatFile(ctx context.Context, path string) (FileInfo, error) {
	doc, err := fileDocument(ctx, "stat", path, hostFileStat)
	if err != nil {
		return FileInfo{}, err
	}
	return abi.Decode[abi.FileInfo](doc)
}

// StatFilesystem returns the numbers of the file system of a path. Hosts other than Linux do not support it.
func StatFilesystem(ctx context.Context, path string) (FilesystemInfo, error) {
	doc, err := fileDocument(ctx, "statfs", path, hostFileStatfs)
	if err != nil {
		return FilesystemInfo{}, err
	}
	return abi.Decode[abi.FilesystemInfo](doc)
}

// ListFolder returns the entries of a folder of the host, sorted by name.
func ListFolder(ctx context.Context, path string) ([]FileEntry, error) {
	doc, err := fileDocument(ctx, "list", path, hostFileList)
	if err != nil {
		return nil, err
	}
	list, err := abi.Decode[abi.FileList](doc)
	return list.Entries, err
}

// ReadFile reads a regular file of the host from an offset on, and returns the number of bytes. At the end of the file
// it is 0.
func ReadFile(ctx context.Context, path string, offset int64, buf []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, opError("read", "file", path, err)
	}
	ptr, n := pointer(path)
	to, size := pointer(buf)
	got := hostFileRead(ptr, n, offset, to, size)
	activity++
	if got < 0 {
		return 0, hostError(got)
	}
	return int(got), nil
}

// fileDocument returns the document of a function.
func fileDocument(ctx context.Context, op, path string, call func(unsafe.Pointer, uint32, unsafe.Pointer, uint32) int32) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError(op, "file", path, err)
	}
	ptr, n := pointer(path)
	doc, err := pull(512, func(buf unsafe.Pointer, size uint32) int32 { return call(ptr, n, buf, size) })
	activity++
	if e, ok := err.(abi.Errno); ok {
		return nil, hostError(e.Code())
	}
	return doc, err
}
