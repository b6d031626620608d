package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/redact"
)

// vector is an entry of testdata/vectors.json, which testdata/vectors.py generates with Python's encoders.
type vector struct{ Secret, Encoding, Text string }

func vectors(t testing.TB) (list []vector) {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil || len(list) == 0 {
		t.Fatalf("%d vectors, %v", len(list), err)
	}
	return list
}

func TestReplaceFindsSecretInEveryEncoding(t *testing.T) {
	for _, v := range vectors(t) {
		r := redact.New([]string{v.Secret})
		got := r.Replace(v.Text)
		// Only quotes around the secret remain, and in base64 a few characters.
		const most = 40
		if left := strings.ReplaceAll(got, redact.Text, ""); !strings.Contains(got, redact.Text) || len(left) > most ||
			!strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s of %s: %s becomes %s", v.Encoding, v.Secret, v.Text, got)
		}
		if again := r.Replace(got); again != got {
			t.Errorf("%s of %s: %s becomes %s the second time", v.Encoding, v.Secret, got, again)
		}
		if other := redact.New([]string{"another-secret"}).Replace(v.Text); other != v.Text {
			t.Errorf("%s of %s: without the secret: %s", v.Encoding, v.Secret, other)
		}
	}
}

func TestReplace(t *testing.T) {
	tests := []struct{ name, secrets, text, want string }{
		{"no secrets", "", "as it is", "as it is"},
		{"white space only", " ", "as it is", "as it is"},
		{"a short secret", "pw", "pw=1", "[redacted]=1"},
		{"a short secret is not sought in base64", "pw", "cHc=", "cHc="},
		{"the longest of two", "pw,pw-longer", "pw-longer, pw", "[redacted], [redacted]"},
		{"two that overlap", "abcdef,defghi", "xabcdefghix", "x[redacted]x"},
		{"two that are adjacent", "abc,def", "abcdef", "[redacted][redacted]"},
		{"twice", "hunter2", "hunter2hunter2", "[redacted][redacted]"},
		{"redacted before", "red", "[redacted] red", "[redacted] [redacted]"},
		{"its beginning at a cut", "hunter2-token", "the password is hunter2-", "the password is [redacted]"},
		{"little of its beginning at a cut", "hunter2-token", "the end hun", "the end hun"},
		{"its beginning in the middle", "hunter2-token", "hunter2- is not it", "hunter2- is not it"},
		{"a cut in an escape", `pass"word`, `{"p":"pass\u00`, `{"p":"[redacted]`},
		{"a cut behind an escape", `pa\ss"word`, `{"p":"pa\\ss\"wo`, `{"p":"[redacted]`},
		{"a cut within a character", "pässwörd", "the password is pässw\uFFFD", "the password is [redacted]"},
		{"a cut in base64", "correct horse battery", "Basic dXNlcjpjb3JyZWN0IGhv", "Basic dXNlcj[redacted]"},
		{"without white space around it", " hunter2\n", "is hunter2.", "is [redacted]."},
		{"a line of a key", "-----BEGIN-----\nMIIEvQIBADAN\nab\n-----END-----", "MIIEvQIBADAN ab", "[redacted] ab"},
		{"mixed escapes", "a/b c&d!", "a%2fb+c&amp;d\\x21", "[redacted]"},
		{"not what an escape stands for", "%41bcd", "%41bcd, not Abcd", "[redacted], not Abcd"},
		{"bytes that are not UTF-8", "\xff\xfe\xfd\xfc", "\xff\xfe\xfd\xfc, %ff%FE%fd%fc, \\xff\\xfe\\xfd\\xfc", "[redacted], [redacted], [redacted]"},
	}
	for _, test := range tests {
		var secrets []string
		if test.secrets != "" {
			secrets = strings.Split(test.secrets, ",")
		}
		if got := redact.New(secrets).Replace(test.text); got != test.want {
			t.Errorf("%s: %s becomes %s, want %s", test.name, test.text, got, test.want)
		}
	}
}

func TestReplaceKeepsSurroundings(t *testing.T) {
	r := redact.New([]string{"a\"b\\c d&e/ü\n"})
	for text, want := range map[string]string{
		`is a"b\c d&e/ü`:                       "is [redacted]",
		`is "a\"b\\c d&e/ü"`:                   `is "[redacted]"`,
		`{"password":"a\"b\\c d\u0026e/ü"}`:    `{"password":"[redacted]"}`,
		"http://x/?p=a%22b%5Cc+d%26e%2F%C3%BC": "http://x/?p=[redacted]",
		"http://x/a%22b%5Cc%20d&e%2F%C3%BC/y":  "http://x/[redacted]/y",
	} {
		if got := r.Replace(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}

// The texts can be decoded in many ways.
func TestReplaceOfRepetitions(t *testing.T) {
	for _, s := range []string{`\`, "%25", "&amp;", "+", "[redacted", "%", "&#x26;"} {
		r := redact.New([]string{strings.Repeat(s, 64) + "x"})
		if text := strings.Repeat(s, 512); len(r.Replace(text)) > len(text) {
			t.Errorf("%q grew", s)
		}
	}
}

func TestReplaceWithoutSecretDoesNotAllocate(t *testing.T) {
	r := redact.New([]string{"hunter2-token", "another one"})
	text := strings.Repeat("all is well & 100% of it, C:\\dir + more. ", 200)
	if n := testing.AllocsPerRun(10, func() { r.Replace(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzReplace(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Secret, v.Text)
	}
	f.Fuzz(func(t *testing.T, secret, text string) {
		r := redact.New([]string{secret})
		got := r.Replace(text)
		trimmed := strings.TrimSpace(secret)
		if trimmed != "" && strings.Contains(strings.ReplaceAll(got, redact.Text, ""), trimmed) && !strings.Contains(redact.Text, trimmed) &&
			strings.Count(text, redact.Text) == 0 && strings.Contains(got, trimmed) {
			t.Errorf("%q is left of %q: %q", secret, text, got)
		}
		if len(trimmed) < 4 {
			return
		}
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			encoded := e.EncodeToString([]byte(trimmed))
			if strings.Contains(r.Replace(text+" "+encoded+" "), encoded) {
				t.Errorf("%q is left in base64", secret)
			}
		}
	})
}

func BenchmarkReplace(b *testing.B) {
	page := strings.Repeat("<td class=\"x\">all is well &amp; 100% of it</td>\n", 10*1024/48)
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat(base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv and so on 12345"))+"\n", 50) + "-----END PRIVATE KEY-----\n"
	for _, bench := range []struct {
		name    string
		secrets []string
		text    string
	}{
		{"secrets=0/text=10KiB", nil, page},
		{"secrets=1/text=10KiB", []string{"hunter2-token"}, page},
		{"secrets=1/text=60B", []string{"hunter2-token"}, page[:60]},
		{"secrets=10/text=10KiB", strings.Split("hunter2 correct horse battery staple another one more secret here", " "), page},
		{"secrets=key/text=10KiB", []string{key}, page},
		{"secrets=bundle/text=10KiB", []string{strings.Repeat(key, 60)}, page},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := redact.New(bench.secrets)
			b.ReportAllocs()
			for b.Loop() {
				r.Replace(bench.text)
			}
		})
	}
}

func TestError(t *testing.T) {
	if redact.Error(nil, nil) != nil {
		t.Error("nil becomes an error")
	}
	err := redact.Error(io.EOF, func(text string) string { return text + "!" })
	if err.Error() != "EOF!" || !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
