// Package compiled caches the results of a module's inspection, so that the next start of a plugin
// neither inspects nor validates the module again.
//
// wazero finds native code by the digest of the whole module, after decoding and validating the module.
// For a Go guest this takes three times as long as reading the native code. A [Stub] is the module with
// empty functions. Compiling the stub once gives it a file name in wazero's cache. The native code of
// the module is then stored under this name. So an instance of the stub runs the code of the module,
// because wazero uses nothing else from the bodies of functions.
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

// Prefix is the prefix of the names of stub files.
const Prefix = "compiled-"

// Name returns the file name of a module's stub. It depends on the digest of the module, the limit of
// table entries and metered, with which it was inspected, and on the version of the inspection.
func Name(digest string, tableEntries uint32, metered bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %t %s", digest, tableEntries, metered, inspect.Revision()))
	return Prefix + hex.EncodeToString(sum[:])
}

// section is the name of the custom section that holds a stub's [record].
const section = "prober.compiled"

// record has the results of the inspection of the module that a stub represents.
type record struct {
	Code   []byte // digest of the compiled code, so that stubs of different modules differ
	Module *inspect.Module
}

// The sections that [Stub] distinguishes.
const (
	customSection = 0
	codeSection   = 10
)

// emptyFunction is a function body with its size: no locals, and the instruction unreachable.
const emptyFunction = "\x03\x00\x00\x0b"

// Stub returns a copy of m with the stub as its code. A custom section of the stub has the results of
// the inspection.
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

// Read reads a stub from a file of at most maxSize bytes. The returned module has the stub as its code.
func Read(path string, maxSize int) (*inspect.Module, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > int64(maxSize) {
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
