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

// Revision returns a digest of the source of this package. What [Inspect] found may be kept as
// long as it stays the same.
var Revision = sync.OnceValue(func() string {
	sum := sha256.New()
	files, _ := fs.Glob(source, "*.go") // the pattern is valid
	for _, name := range files {
		text, _ := source.ReadFile(name) // it is in the program
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))
})
