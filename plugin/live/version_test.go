package live

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/schema"
)

// notInVersion has the fields of [admit.Plugin] that versionOf leaves out, each with the reason for
// which its change requires no reload.
var notInVersion = map[string]string{
	"Path":       "the same bytes at another path are the same version",
	"Module":     "Digest is its digest",
	"hashed":     "it is Module and Digest",
	"memory":     "it is where the plugin was remembered",
	"shipped":    "it is the plugin itself",
	"Text":       "Beside is its digest",
	"Inside":     "it is the digest of a part of Module, which Digest covers",
	"Signatures": "they decide whether the plugin may be loaded, not how it runs",
	"Report":     "it decides nothing",
	"Verdict":    "it decides whether the plugin may be loaded, not how it runs",
}

// A new field is either part of the version or in notInVersion.
func TestVersionOfCoversEveryField(t *testing.T) {
	var m Manager
	p, names, left := pluginWith(t, "")
	for _, name := range slices.Sorted(maps.Keys(notInVersion)) {
		if !slices.Contains(left, name) {
			t.Errorf("notInVersion: there is no field %s", name)
		}
	}
	base := m.versionOf(p)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			changed, _, _ := pluginWith(t, name)
			equal, _, _ := pluginWith(t, name)
			if m.versionOf(changed) == base {
				t.Errorf("a change of %s does not change the version: add it to versionOf, or to notInVersion with the reason", name)
			}
			if m.versionOf(changed) != m.versionOf(equal) {
				t.Errorf("equal plugins have different versions: versionOf must not depend on the address of %s", name)
			}
		})
	}
}

// pluginWith returns a plugin with all fields set, and the field called changed to another value. names
// are the names of the fields, such as "Manifest.Requests[].Allow[]". left are the fields in
// notInVersion.
func pluginWith(t *testing.T, changed string) (p admit.Plugin, names, left []string) {
	t.Helper()
	var set func(name string, v reflect.Value)
	set = func(name string, v reflect.Value) {
		if notInVersion[name] != "" {
			left = append(left, name)
			return
		}
		n := 1
		if name == changed {
			n = 2
		}
		switch to := v.Addr().Interface().(type) {
		case *plugin.Grant:
			*to, _ = plugin.ParseGrant(fmt.Sprintf("tcp://db:%d", n))
		case *plugin.Argument: // which has a Text or a Group
			*to = plugin.Argument{Text: fmt.Sprint(n)}
		case **schema.Schema:
			var err error
			if *to, err = schema.New(fmt.Appendf(nil, `{"maxProperties": %d}`, n)); err != nil {
				t.Fatal(err)
			}
		case *map[string]string:
			*to = map[string]string{"key": fmt.Sprint(n)}
		default:
			setKind(t, name, v, n, set)
			if slices.Contains([]reflect.Kind{reflect.Struct, reflect.Slice, reflect.Pointer}, v.Kind()) {
				return // set has added the names of its elements
			}
		}
		names = append(names, name)
	}
	set("", reflect.ValueOf(&p).Elem())
	return p, names, left
}

// setKind sets v to a value that depends on n. It calls set for the elements of v.
func setKind(t *testing.T, name string, v reflect.Value, n int, set func(name string, v reflect.Value)) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			inner := strings.TrimPrefix(name+"."+f.Name, ".")
			if f.Anonymous {
				inner = name
			}
			set(inner, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(name, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(name+"[]", v.Index(0))
	case reflect.String:
		v.SetString(fmt.Sprint(n))
	case reflect.Bool:
		v.SetBool(n == 2)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint8:
		v.SetUint(uint64(n))
	default:
		t.Fatalf("%s: this test cannot set a %s yet", name, v.Type())
	}
}
