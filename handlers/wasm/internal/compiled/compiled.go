// Package compiled keeps what the next start of a plugin needs of its module, so that the
// module is neither inspected nor validated again.
//
// wazero finds native code by the digest of the whole module, which it decodes and validates
// before. For a Go guest that takes three times as long as reading the native code. A [Stub] is
// the module with empty functions. It is compiled once, which gives it a name in wazero's
// cache; under that name the native code of the module itself is kept. An instance of the stub
// is then one of the module: wazero takes nothing else of the bodies of functions.
package compiled

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	inspect "github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/internal/wasmfile"
)

// Prefix begins the names of files with stubs.
const Prefix = "compiled-"

// Name returns the name of the file with the stub of a plugin's module. It depends on the
// digest of the module, on the limit of table entries that it was inspected with, on whether it
// may be metered, and on the version of the inspection.
func Name(digest string, tableEntries uint32, metered bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %t %s", digest, tableEntries, metered, inspect.Revision()))
	return Prefix + hex.EncodeToString(sum[:])
}

// section is the name of the custom section with the [record] of a stub.
const section = "prober.compiled"

// record is what a stub says about the module that it stands for.
type record struct {
	Code   []byte // the digest of the code that was compiled: stubs of different modules must differ
	Module *inspect.Module
}

// The sections that [Stub] distinguishes.
const (
	customSection = 0
	codeSection   = 10
)

// emptyFunction is the body of a function without locals that is unreachable, with its size.
const emptyFunction = "\x03\x00\x00\x0b"

// Stub returns m with the stub as its code. The stub has what the inspection found in a custom
// section.
func Stub(m *inspect.Module) (*inspect.Module, error) {
	sections, err := wasmfile.Sections(m.Code)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(m.Code)
	text, err := json.Marshal(record{digest[:], m.WithCode(nil)})
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(m.Code))
	out = append(out, m.Code[:8]...)
	for i, s := range sections {
		if s.ID == codeSection {
			code := wasmfile.Reader{Data: s.Body}
			out = appendSection(out, codeSection, emptyFunctions(code.Count()))
			continue
		}
		end := len(m.Code)
		if i+1 < len(sections) {
			end = sections[i+1].Start
		}
		out = append(out, m.Code[s.Start:end]...)
	}
	return m.WithCode(appendSection(out, customSection, append(append([]byte{byte(len(section))}, section...), text...))), nil
}

// emptyFunctions returns the contents of a code section with n functions.
func emptyFunctions(n int) []byte {
	out := binary.AppendUvarint(make([]byte, 0, 5+n*len(emptyFunction)), uint64(n))
	for range n {
		out = append(out, emptyFunction...)
	}
	return out
}

func appendSection(out []byte, id byte, body []byte) []byte {
	out = binary.AppendUvarint(append(out, id), uint64(len(body)))
	return append(out, body...)
}

// Write writes a stub to a file.
func Write(path string, stub *inspect.Module) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(stub.Code)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// ErrNotStub means that a file is not a stub.
var ErrNotStub = errors.New("not a stub of a compiled module")

// Read reads a stub from a file of at most so many bytes. The module that it returns has the
// stub as its code.
func Read(path string, most int) (*inspect.Module, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > int64(most) {
		return nil, ErrNotStub
	}
	stub := make([]byte, info.Size())
	if _, err := io.ReadFull(f, stub); err != nil {
		return nil, err
	}
	sections, err := wasmfile.Sections(stub)
	if err != nil || len(sections) == 0 {
		return nil, ErrNotStub
	}
	var about record
	if last := sections[len(sections)-1]; last.Name != section || json.Unmarshal(last.Body, &about) != nil || about.Module == nil {
		return nil, ErrNotStub
	}
	about.Module.Code = stub
	return about.Module, nil
}
