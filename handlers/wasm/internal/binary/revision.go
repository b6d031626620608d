package binary

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"sync"
)

//go:embed *.go
var source embed.FS

// Revision returns a digest of the source of this package. A stored result of [Inspect] is valid while
// the digest stays the same.
var Revision = sync.OnceValue(func() string {
	sum := sha256.New()
	files, _ := fs.Glob(source, "*.go") // the pattern is valid
	for _, name := range files {
		text, _ := source.ReadFile(name) // the file is embedded
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))
})
