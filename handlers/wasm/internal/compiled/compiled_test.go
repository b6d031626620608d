package compiled

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	inspect "github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/internal/wasmfile"
)

// module is (module (memory 2) (global (mut i32) (i32.const 0)) (func) (func (result i32) (local i32)
// i32.const 7)).
const module = "\x00asm\x01\x00\x00\x00" +
	"\x01\x08\x02\x60\x00\x00\x60\x00\x01\x7f" +
	"\x03\x03\x02\x00\x01" +
	"\x05\x03\x01\x00\x02" +
	"\x06\x06\x01\x7f\x01\x41\x00\x0b" +
	"\x07\x09\x01\x05probe\x00\x01" +
	"\x0a\x0b\x02\x02\x00\x0b\x06\x01\x01\x7f\x41\x07\x0b"

func inspected(t *testing.T) *inspect.Module {
	t.Helper()
	m, err := inspect.Inspect([]byte(module), 10)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestStubKeepsInspection(t *testing.T) {
	m := inspected(t)
	// Every field must survive, including fields that are added later.
	fields := reflect.ValueOf(m).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); {
		case !fields.Type().Field(i).IsExported():
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanUint() && f.IsZero():
			f.SetUint(7)
		case f.CanInt() && f.IsZero():
			f.SetInt(7)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String && f.Len() == 0:
			f.Set(reflect.ValueOf([]string{"a", "b"}))
		}
	}
	stub, err := Stub(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "stub")
	if err := Write(path, stub); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path, 1<<20)
	if err != nil || !reflect.DeepEqual(got, stub) {
		t.Errorf("got %+v, %v, want %+v", got, err, stub)
	}
	if want := m.WithCode(got.Code); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestStubHasNoCode(t *testing.T) {
	m := inspected(t)
	stub, err := Stub(m)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := wasmfile.Sections(m.Code)
	if err != nil {
		t.Fatal(err)
	}
	left, err := wasmfile.Sections(stub.Code)
	if err != nil || len(left) != len(whole)+1 {
		t.Fatalf("got %d sections, %v, want one more than %d", len(left), err, len(whole))
	}
	for i, s := range whole {
		want := string(s.Body)
		if s.ID == codeSection {
			want = "\x02\x03\x00\x00\x0b\x03\x00\x00\x0b"
		}
		if left[i].ID != s.ID || string(left[i].Body) != want {
			t.Errorf("section %d: got %q, want %q", s.ID, left[i].Body, want)
		}
	}
	if _, err := inspect.Inspect(stub.Code, 10); err == nil {
		t.Error("a stub was inspected again, whose exports have reserved names")
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
	stub, err := Stub(inspected(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string]string{
		"empty":      "",
		"a module":   module,
		"cut":        string(stub.Code[:len(stub.Code)-1]),
		"too large":  string(stub.Code) + string(make([]byte, 2000)),
		"not record": string(appendSection([]byte(module), customSection, []byte("\x0fprober.compilednull"))),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 1000); !errors.Is(err, ErrNotStub) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if _, err := Read(dir, 1000); !errors.Is(err, ErrNotStub) {
		t.Errorf("a folder: got %v", err)
	}
	if _, err := Read(filepath.Join(dir, "missing"), 1000); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

func TestNameDependsOnModuleAndLimit(t *testing.T) {
	names := map[string]bool{Name("sha256:a", 1, true): true, Name("sha256:a", 2, true): true, Name("sha256:b", 1, true): true, Name("sha256:a", 1, false): true}
	if len(names) != 4 || !names[Name("sha256:a", 1, true)] {
		t.Errorf("got %v", names)
	}
}
