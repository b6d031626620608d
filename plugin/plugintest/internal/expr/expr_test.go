package expr_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
)

// scope returns a scope with captured bytes and an integer, and their values.
func scope(t testing.TB) (*expr.Scope, *expr.Env) {
	t.Helper()
	s := &expr.Scope{}
	for name, typ := range map[string]expr.Type{"id": expr.Bytes, "key": expr.Bytes, "n": expr.Int} {
		if err := s.Add(name, typ, 1); err != nil {
			t.Fatal(err)
		}
	}
	return s, &expr.Env{Now: time.Unix(1700000000, 0), Values: map[string]expr.Value{
		"id": {Bytes: []byte("abcd")}, "key": {Bytes: []byte("dGhlIHNhbXBsZSBub25jZQ==")}, "n": {Type: expr.Int, Int: 300},
	}}
}

func TestTextValues(t *testing.T) {
	for source, want := range map[string]string{
		"plain":                   "plain",
		"$${id} ${id}":            "${id} abcd",
		"${'a}b'}${\"\\x41\\r\"}": "a}bA\r",
		"${concat(id, '-', id)}":  "abcd-abcd",
		"${slice(id, 1)}${slice(id, 0, 1)}${slice(id, size(id) - 1)}":                 "bcdad",
		"${between('r=abc,s=1', 'r=', ',')}":                                          "abc",
		"${between('r=abc', 'r=', ',')}":                                              "abc",
		"${between('a=b=c', '=', '')}":                                                "b=c",
		"${dec(n + 0x10 - (2 - 1))}":                                                  "315",
		"${dec(number('12') + int('\\x01\\x00') + intle('\\x01'))}":                   "269",
		"${hex(u16(n))} ${hex(u16le(n))} ${hex(u32(n))} ${hex(u64(1))} ${hex(u8(7))}": "012c 2c01 0000012c 0000000000000001 07",
		"${hex(ber(127))} ${hex(ber(128))} ${hex(ber(n))} ${hex(ber(0))}":             "7f 8180 82012c 00",
		"${hex(varint(127))} ${hex(varint(n))}":                                       "7f ac02",
		"${hex(xor(id, '\\0\\0\\0 '))} ${unhex('61 62')} ${unbase64('YQ')}":           "61626344 ab a",
		"${dec(now)}": "1700000000",
		// RFC 6455, section 1.3.
		"${base64(sha1(concat(key, '258EAFA5-E914-47DA-95CA-C5AB0DC85B11')))}": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
		// RFC 7677, section 3: the server's signature is made of this key.
		"${base64(hmac_sha256(pbkdf2_sha256('pencil', unbase64('W22ZaJ0SNY7soEsUEjb6gQ=='), 4096), 'Client Key'))}": "pg/JI9Z+hkSpLRa5btpe9GVrDHJcSEN0viVTVXaZbos=",
		"${hex(pbkdf2_sha1('password', 'salt', 2))}":                                                                "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957",
		"${hex(crc32('123456789'))} ${hex(md5(''))}":                                                                "cbf43926 d41d8cd98f00b204e9800998ecf8427e",
		"${hex(hmac_md5('key', 'The quick brown fox jumps over the lazy dog'))}":                                    "80070713463e7749b90c2dc24911e275",
		"${hex(hmac_sha1('key', 'The quick brown fox jumps over the lazy dog'))}":                                   "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9",
		"${hex(sha256('abc'))}": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	} {
		s, env := scope(t)
		template, err := expr.Text(source, s)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := template.Bytes(env); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", source, got, err, want)
		}
	}
}

// A length counts what follows, a checksum covers what precedes, in any combination that has an order.
func TestHexPartsNeedOtherParts(t *testing.T) {
	s, env := scope(t)
	template, err := expr.Hex("01 ${u16(size(rest))}\n${id} 00 ff ${md5(before)} ${u8(size(before))}", s)
	if err != nil {
		t.Fatal(err)
	}
	head, _ := hex.DecodeString("01001761626364" + "00ff")
	sum := md5.Sum(head)
	want := append(append(head, sum[:]...), 25)
	if got, err := template.Bytes(env); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
	if _, ok := template.Constant(); ok {
		t.Error("the template is constant")
	}
	constant, err := expr.Hex("00 f f", s)
	if err != nil {
		t.Fatal(err)
	}
	if data, ok := constant.Constant(); !ok || !bytes.Equal(data, []byte{0, 0xff}) {
		t.Errorf("got %x, %v", data, ok)
	}
}

func TestLoadErrorsHaveColumn(t *testing.T) {
	for source, want := range map[string]string{
		"a ${od}":                                `column 5: unknown name "od"; known: id, key, n (did you mean "id"?)`,
		"ü ${shasum(id)}":                        `column 5: unknown function "shasum"; known: base64, `,
		"${sha1(n)}":                             "column 8: the argument is an integer, want bytes: sha1(b)",
		"${u8(id)}":                              "column 6: the argument is bytes, want an integer: u8(n)",
		"${n}":                                   "column 3: an integer has no size: use u8, u16,",
		"${slice(id)}":                           "column 3: slice has 1 arguments, want slice(b, from[, to])",
		"${md5(id, id)}":                         "column 3: md5 has 2 arguments, want md5(b)",
		"${id + 1}":                              "column 3: + and - are for integers",
		"${id":                                   "column 5: the expression ends, want }",
		"${id id}":                               "column 6: unexpected 'i', want }",
		"${":                                     "column 3: the expression ends, want a name, a number or a quoted text",
		"${concat(id id)}":                       "column 13: unexpected 'i', want , or )",
		"${'a}":                                  "column 3: the quoted text has no end",
		`${"\q"}`:                                "column 4: unknown escape",
		"${u8(12a)}":                             `column 6: "12a" must be an integer`,
		"${u8(256)}":                             "column 3: u8: 256 does not fit 1 bytes",
		"${unhex('xx')}":                         "column 3: unhex: invalid byte",
		"x\n ${od}":                              "line 2 of the value, column 4: unknown name",
		"${md5(rest)}${md5(before)}":             "column 3: the value needs itself",
		"${dec(size(rest))}${dec(size(before))}": "the value needs itself",
		strings.Repeat("${id}", 257):             "more than 256 expressions",
		"${" + strings.Repeat("(", 33):           "more than 32 levels",
		"${" + strings.Repeat(" ", 4100) + "id}": "the expression is longer than 4096 characters",
		"${u8(4611686018427387904 + 1)}":         "", // found when it is evaluated
	} {
		s, env := scope(t)
		template, err := expr.Text(source, s)
		if want == "" {
			if err == nil {
				_, err = template.Bytes(env)
			}
			want = "column 6: the integer is out of range"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", source, err, want)
		}
	}
	s, _ := scope(t)
	if _, err := expr.Hex("00 0x ${id}", s); err == nil || err.Error() != "column 5: 'x' is not a hexadecimal digit" {
		t.Errorf("got %v", err)
	}
	if _, err := expr.Hex("${id} 000 ${id}", s); err == nil || err.Error() != "column 11: an odd number of hexadecimal digits" {
		t.Errorf("got %v", err)
	}
	if _, _, err := expr.Expression("rest", s); err == nil || !strings.Contains(err.Error(), "only send and recv have it") {
		t.Errorf("got %v", err)
	}
	if _, _, err := expr.Expression("id id", s); err == nil || !strings.Contains(err.Error(), "column 4: unexpected 'i', want the end") {
		t.Errorf("got %v", err)
	}
}

func TestEvaluationErrorsHaveColumn(t *testing.T) {
	for source, want := range map[string]string{
		"  ${slice(id, 2, n)}":               "column 5: slice: from 2 to 300 of 4 bytes",
		"${u8(n)}":                           "column 3: u8: 300 does not fit 1 bytes",
		"${u8(1 - n)}":                       "column 3: u8: -299 does not fit 1 bytes",
		"${xor(id, 'a')}":                    "column 3: xor: 4 and 1 bytes",
		"${between(id, 'x', '')}":            `column 3: between: the bytes do not have "x"`,
		"${unbase64(concat(id, '!'))}":       `"abcd!" is not base64`,
		"${u8(number(id))}":                  `"abcd" must be a decimal integer`,
		"${u8(int(concat(id, id, id)))}":     "12 bytes do not fit an integer",
		"${pbkdf2_sha1(id, id, 0)}":          "0 iterations, want at least 1",
		"${pbkdf2_sha1(id, id, 4000000000)}": "the computation takes too long",
		"${dec(0 - n)}":                      "-300 is negative",
		strings.Repeat("${concat(rest, rest)}", 40) + "${id}": "the computation takes too long",
	} {
		s, env := scope(t)
		template, err := expr.Text(source, s)
		if err != nil {
			t.Errorf("%.60s: %v", source, err)
			continue
		}
		if got, err := template.Bytes(env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %.40q, %v, want %q", source, got, err, want)
		}
	}
}

func TestScopeRefusesNames(t *testing.T) {
	s := &expr.Scope{}
	if err := s.Add("a", expr.Bytes, 7); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a": `line 7 has the name "a", too`, "rest": "has a meaning", "now": "has a meaning", "1a": "must be a name", "": "must be a name", "a-b": "must be a name",
	} {
		if err := s.Add(name, expr.Int, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
	if got := s.Unused(); len(got) != 1 || got["a"] != 7 {
		t.Errorf("unused: %v", got)
	}
	if _, typ, err := expr.Expression("size(a)", s); err != nil || typ != expr.Int || len(s.Unused()) != 0 {
		t.Errorf("got %v, %v, unused %v", typ, err, s.Unused())
	}
}

func TestDocumentListsEveryFunction(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/plugins/test-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, usage := range expr.Usages() {
		if !strings.Contains(string(page), "`"+usage+"`") {
			t.Errorf("docs/plugins/test-cases.md does not list `%s`", usage)
		}
	}
}

// FuzzTemplate checks that no template panics, that its size is bounded, and that it has one value.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"01 ${u16(size(rest))} ${id} ${xor(crc32(before), unhex('5354554e'))}", "${between(key, 'd', \"=\")}$${", "${pbkdf2_sha256(id, key, n)}",
		"${slice(id, n - 299, size(id))}", "${concat(rest, rest)}${concat(rest, rest)}00", "${'\\x41'}", "${dec(number(dec(n)) + now)}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, parse := range []func(string, *expr.Scope) (*expr.Template, error){expr.Text, expr.Hex} {
			s, env := scope(t)
			template, err := parse(source, s)
			if err != nil {
				continue
			}
			once, err := template.Bytes(env)
			again, errAgain := template.Bytes(env)
			if !bytes.Equal(once, again) || (err == nil) != (errAgain == nil) {
				t.Errorf("%q: got %x, %v, then %x, %v", source, once, err, again, errAgain)
			}
			if len(once) > 64<<20 {
				t.Errorf("%q: %d bytes", source, len(once))
			}
			if data, ok := template.Constant(); ok && !bytes.Equal(data, once) {
				t.Errorf("%q: the constant is %x, the value %x", source, data, once)
			}
		}
	})
}
