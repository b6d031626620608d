package builtin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// actions returns the handlers, each with a function that returns the Kubernetes API type of its config.
func actions(t testing.TB) map[probe.Preparer]func() any {
	t.Helper()
	exec, err := builtin.NewExec(builtin.Config{Runner: &builtin.HostRunner{}})
	if err != nil {
		t.Fatal(err)
	}
	return map[probe.Preparer]func() any{
		exec:                              func() any { return new(v1.ExecAction) },
		builtin.NewHTTP(builtin.Config{}): func() any { return new(v1.HTTPGetAction) },
		builtin.NewTCP(builtin.Config{}):  func() any { return new(v1.TCPSocketAction) },
		builtin.NewGRPC(builtin.Config{}): func() any { return new(v1.GRPCAction) },
	}
}

func TestConfigsHaveTheFieldsOfTheAPI(t *testing.T) {
	for h, action := range actions(t) {
		typ := reflect.TypeOf(action()).Elem()
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if _, err := h.Prepare(fmt.Appendf(nil, `{%q:null}`, name), probe.Target{}); err != nil && strings.Contains(err.Error(), "unknown field") {
				t.Errorf("%v: %v", typ, err)
			}
		}
	}
}

// Parts of a decoder's errors that differ: package names of Go types, and the API's names for string types.
var (
	qualifier = regexp.MustCompile(`\b(v1|[a-z]+probe)\.`)
	strs      = regexp.MustCompile(`\b(URIScheme|HTTPProtocol|GRPCProbeMode)\b`)
)

func withoutTypes(err error) string {
	return strs.ReplaceAllString(qualifier.ReplaceAllString(err.Error(), ""), "string")
}

// FuzzConfig checks that configs are decoded like the API types, with the same errors.
func FuzzConfig(f *testing.F) {
	for _, config := range []string{
		``, `null`, `[]`, `{}`, `{} {}`, `{"nonsense":1}`, `{"Port":1}`, `{"port":null}`, `{"port":1.5}`, `{"port":3000000000}`, `{"port":"http"}`, `{"port":{}}`, `{"port":true}`,
		`{"command":"ls"}`, `{"command":["ls",1]}`, `{"command":null}`, `{"path":1}`, `{"scheme":1}`, `{"host":[]}`, `{"protocol":1}`, `{"mode":{}}`, `{"service":null}`, `{"service":1}`,
		`{"httpHeaders":{}}`, `{"httpHeaders":[1]}`, `{"httpHeaders":[{"name":1}]}`, `{"httpHeaders":[{"value":"x","nonsense":1}]}`, `{"port":1`, "{}\n\n", "{} ",
	} {
		f.Add([]byte(config))
	}
	all := actions(f)
	f.Fuzz(func(t *testing.T, config []byte) {
		for h, action := range all {
			d := json.NewDecoder(bytes.NewReader(config))
			d.DisallowUnknownFields()
			want := d.Decode(action())
			if want == nil {
				if _, err := d.Token(); !errors.Is(err, io.EOF) {
					want = errors.New("more than one JSON value")
				}
			}
			if want != nil && strings.EqualFold(want.Error(), `json: unknown field "connection"`) {
				continue // only the http handler has this key, not the API
			}
			_, err := h.Prepare(config, probe.Target{})
			switch {
			case want != nil && (err == nil || withoutTypes(err) != "config: "+withoutTypes(want)):
				t.Errorf("%T %q: got %v, want %v", action(), config, err, want)
			case want == nil && err != nil && strings.HasPrefix(err.Error(), "config: "):
				t.Errorf("%T %q: %v", action(), config, err)
			}
		}
	})
}
