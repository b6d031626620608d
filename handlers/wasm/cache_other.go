//go:build !linux

package wasm

import (
	"io/fs"
	"time"
)

// lastUsed returns when a file was last written, because systems record reads differently.
func lastUsed(info fs.FileInfo) time.Time { return info.ModTime() }
