package expr

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// function is a function of the language.
type function struct {
	usage    string // such as "slice(b, from[, to])"
	params   []Type
	optional int  // number of last parameters that may be left out
	variadic bool // the last parameter may be repeated
	result   Type

	// fixed is the size of a result that does not depend on the arguments, or 0. size returns the size for
	// the sizes of the arguments. Without both, the size depends on the arguments themselves.
	fixed int
	size  func(sizes []int) int
	apply func(args []Value) (Value, error)

	sizeOnly bool // the function is size itself
	slow     bool // the last argument is a number of rounds
}

// String returns the usage.
func (f *function) String() string { return f.usage }

// least returns the least number of arguments.
func (f *function) least() int { return len(f.params) - f.optional }

// ofBytes returns a function from bytes to bytes.
func ofBytes(usage string, size func([]int) int, apply func(b []byte) ([]byte, error)) *function {
	return &function{usage: usage, params: []Type{Bytes}, size: size, apply: func(args []Value) (Value, error) {
		b, err := apply(args[0].Bytes)
		return Value{Bytes: b}, err
	}}
}

// digest returns a function that hashes bytes.
func digest(usage string, size int, sum func(b []byte) []byte) *function {
	return &function{usage: usage, params: []Type{Bytes}, fixed: size, apply: func(args []Value) (Value, error) {
		return Value{Bytes: sum(args[0].Bytes)}, nil
	}}
}

// mac returns a function that computes an HMAC.
func mac(usage string, size int, of func() hash.Hash) *function {
	return &function{usage: usage, params: []Type{Bytes, Bytes}, fixed: size, apply: func(args []Value) (Value, error) {
		m := hmac.New(of, args[0].Bytes)
		_, _ = m.Write(args[1].Bytes)
		return Value{Bytes: m.Sum(nil)}, nil
	}}
}

// rounds is the work of one iteration of PBKDF2, which hashes two blocks of 64 bytes.
const rounds = 128

// stretch returns a function that computes PBKDF2.
func stretch(usage string, size int, of func() hash.Hash) *function {
	return &function{usage: usage, params: []Type{Bytes, Bytes, Int}, fixed: size, slow: true, apply: func(args []Value) (Value, error) {
		if args[2].Int < 1 {
			return Value{}, fmt.Errorf("%d iterations, want at least 1", args[2].Int)
		}
		key, err := pbkdf2.Key(of, string(args[0].Bytes), args[1].Bytes, int(args[2].Int), size)
		return Value{Bytes: key}, err
	}}
}

// unsigned returns a function that encodes an integer in size bytes.
func unsigned(usage string, size int, little bool) *function {
	return &function{usage: usage, params: []Type{Int}, fixed: size, apply: func(args []Value) (Value, error) {
		n := args[0].Int
		if n < 0 || size < 8 && n>>(8*size) != 0 {
			return Value{}, fmt.Errorf("%d does not fit %d bytes", n, size)
		}
		b := binary.BigEndian.AppendUint64(nil, uint64(n))[8-size:]
		if little {
			slices.Reverse(b)
		}
		return Value{Bytes: b}, nil
	}}
}

// integer returns a function that decodes an integer.
func integer(usage string, little bool) *function {
	return &function{usage: usage, params: []Type{Bytes}, result: Int, apply: func(args []Value) (Value, error) {
		b := slices.Clone(args[0].Bytes)
		if little {
			slices.Reverse(b)
		}
		n, err := Uint(b)
		return Value{Int: n}, err
	}}
}

// Uint returns the integer of bytes in big-endian order.
func Uint(b []byte) (int64, error) {
	b = bytes.TrimLeft(b, "\x00")
	if len(b) > 8 || len(b) == 8 && b[0] > math.MaxInt8 {
		return 0, fmt.Errorf("%d bytes do not fit an integer", len(b))
	}
	var n int64
	for _, c := range b {
		n = n<<8 | int64(c)
	}
	return n, nil
}

// encoded returns a function that encodes an integer with a size of its own.
func encoded(usage string, encode func(n int64) []byte) *function {
	return &function{usage: usage, params: []Type{Int}, apply: func(args []Value) (Value, error) {
		if args[0].Int < 0 {
			return Value{}, fmt.Errorf("%d is negative", args[0].Int)
		}
		return Value{Bytes: encode(args[0].Int)}, nil
	}}
}

// berLength returns a length of the Basic Encoding Rules.
func berLength(n int64) []byte {
	if n < 0x80 {
		return []byte{byte(n)}
	}
	b := bytes.TrimLeft(binary.BigEndian.AppendUint64(nil, uint64(n)), "\x00")
	return append([]byte{0x80 | byte(len(b))}, b...)
}

func slice(args []Value) (Value, error) {
	b := args[0].Bytes
	from, to := args[1].Int, int64(len(b))
	if len(args) > 2 {
		to = args[2].Int
	}
	if from < 0 || to < from || to > int64(len(b)) {
		return Value{}, fmt.Errorf("from %d to %d of %d bytes", from, to, len(b))
	}
	return Value{Bytes: b[from:to]}, nil
}

// between returns the bytes behind the first start, up to the next end or the end of the bytes.
func between(args []Value) (Value, error) {
	_, found, ok := bytes.Cut(args[0].Bytes, args[1].Bytes)
	if !ok {
		return Value{}, fmt.Errorf("the bytes do not have %.40q", args[1].Bytes)
	}
	if len(args[2].Bytes) > 0 {
		found, _, _ = bytes.Cut(found, args[2].Bytes)
	}
	return Value{Bytes: found}, nil
}

func xor(args []Value) (Value, error) {
	a, b := args[0].Bytes, args[1].Bytes
	if len(a) != len(b) {
		return Value{}, fmt.Errorf("%d and %d bytes, want equally many", len(a), len(b))
	}
	both := make([]byte, len(a))
	for i := range a {
		both[i] = a[i] ^ b[i]
	}
	return Value{Bytes: both}, nil
}

func concat(args []Value) (Value, error) {
	var all []byte
	for _, a := range args {
		all = append(all, a.Bytes...)
	}
	return Value{Bytes: all}, nil
}

func number(args []Value) (Value, error) {
	n, err := strconv.ParseInt(string(args[0].Bytes), 10, 64)
	if err != nil {
		return Value{}, fmt.Errorf("%.40q must be a decimal integer", args[0].Bytes)
	}
	return Value{Int: n}, nil
}

func unbase64(b []byte) ([]byte, error) {
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if data, err := e.DecodeString(string(b)); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%.40q is not base64", b)
}

func unhex(b []byte) ([]byte, error) {
	data, err := hex.DecodeString(strings.Join(strings.Fields(string(b)), ""))
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "encoding/hex: "))
	}
	return data, err
}

func sum(sizes []int) (total int) {
	for _, n := range sizes {
		total += n
	}
	return total
}

// functions returns the functions by name.
var functions = sync.OnceValue(func() map[string]*function {
	all := make(map[string]*function)
	for _, f := range []*function{
		{usage: "size(b)", params: []Type{Bytes}, result: Int, sizeOnly: true},
		{usage: "concat(b, …)", params: []Type{Bytes}, variadic: true, size: sum, apply: concat},
		{usage: "slice(b, from[, to])", params: []Type{Bytes, Int, Int}, optional: 1, apply: slice},
		{usage: "between(b, start, end)", params: []Type{Bytes, Bytes, Bytes}, apply: between},
		{usage: "xor(a, b)", params: []Type{Bytes, Bytes}, size: func(sizes []int) int { return sizes[0] }, apply: xor},
		{usage: "number(text)", params: []Type{Bytes}, result: Int, apply: number},
		unsigned("u8(n)", 1, false), unsigned("u16(n)", 2, false), unsigned("u32(n)", 4, false), unsigned("u64(n)", 8, false),
		unsigned("u16le(n)", 2, true), unsigned("u32le(n)", 4, true), unsigned("u64le(n)", 8, true),
		integer("int(b)", false), integer("intle(b)", true),
		encoded("ber(n)", berLength),
		encoded("varint(n)", func(n int64) []byte { return binary.AppendUvarint(nil, uint64(n)) }),
		encoded("dec(n)", func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }),
		ofBytes("hex(b)", func(sizes []int) int { return 2 * sizes[0] }, func(b []byte) ([]byte, error) { return hex.AppendEncode(nil, b), nil }),
		ofBytes("unhex(text)", nil, unhex),
		ofBytes("base64(b)", func(sizes []int) int { return base64.StdEncoding.EncodedLen(sizes[0]) },
			func(b []byte) ([]byte, error) { return base64.StdEncoding.AppendEncode(nil, b), nil }),
		ofBytes("unbase64(text)", nil, unbase64),
		digest("md5(b)", md5.Size, func(b []byte) []byte { s := md5.Sum(b); return s[:] }),
		digest("sha1(b)", sha1.Size, func(b []byte) []byte { s := sha1.Sum(b); return s[:] }),
		digest("sha256(b)", sha256.Size, func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }),
		digest("crc32(b)", crc32.Size, func(b []byte) []byte { return binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)) }),
		mac("hmac_md5(key, b)", md5.Size, md5.New), mac("hmac_sha1(key, b)", sha1.Size, sha1.New), mac("hmac_sha256(key, b)", sha256.Size, sha256.New),
		stretch("pbkdf2_sha1(password, salt, iterations)", sha1.Size, sha1.New),
		stretch("pbkdf2_sha256(password, salt, iterations)", sha256.Size, sha256.New),
	} {
		name, _, _ := strings.Cut(f.usage, "(")
		all[name] = f
	}
	return all
})

// Usages returns the functions as documents list them, in order.
func Usages() []string {
	var all []string
	for _, f := range functions() {
		all = append(all, f.usage)
	}
	slices.Sort(all)
	return all
}
