package adverse

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// stranger is an answer that belongs to no protocol, or to another one.
type stranger struct {
	name string
	data []byte
}

// strangers returns answers that no plugin may take for its own, the most readable first.
var strangers = sync.OnceValue(func() []stranger {
	source := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 256)
	for i := range random {
		random[i] = byte(source.Uint32())
	}
	return []stranger{
		{"an HTTP error", []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")},
		{"a greeting of SSH", []byte("SSH-2.0-OpenSSH_9.6\r\n")},
		{"a greeting of SMTP", []byte("220 mail.example ESMTP ready\r\n")},
		{"an error of Redis", []byte("-ERR unknown command\r\n")},
		{"a greeting of IMAP", []byte("* OK IMAP4rev1 ready\r\n")},
		{"a greeting of POP3", []byte("+OK POP3 ready\r\n")},
		{"an error of memcached", []byte("ERROR\r\n")},
		{"a greeting of MySQL", []byte("J\x00\x00\x00\n8.0.36\x00\x08\x00\x00\x00abcdefgh\x00\xff\xf7\xff\x02\x00\xff\xdf\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00abcdefghijkl\x00mysql_native_password\x00")},
		{"an error of PostgreSQL", []byte("E\x00\x00\x00\x2cSFATAL\x00C08P01\x00Minvalid startup packet\x00\x00")},
		{"an alert of TLS", []byte("\x15\x03\x01\x00\x02\x02\x28")},
		{"a record of TLS", append([]byte("\x16\x03\x03\x00\x2e\x02\x00\x00\x2a\x03\x03"), random[:40]...)},
		{"the header of AMQP", []byte("AMQP\x00\x00\x09\x01")},
		{"options of Telnet", []byte("\xff\xfd\x18\xff\xfd\x20\xff\xfd\x23\xff\xfd\x27login: ")},
		{"empty lines", []byte("\r\n\r\n")},
		{"an HTML page", []byte(page)},
		{"random bytes", random},
		{"zeros", make([]byte, 256)},
		{"bytes of 0xff", bytes.Repeat([]byte{0xff}, 256)},
		{"a line without an end", bytes.Repeat([]byte("A"), huge)},
	}
})

const page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in</body></html>\n"

// rewrite is a change of data.
type rewrite struct {
	family testfile.Fault
	what   string
	data   func() []byte

	// size is the number of bytes that were added, and part returns the data with n of them.
	size int
	part func(n int) []byte
}

// rewrites returns changes of the values in data: its numbers, its lines, and its JSON.
func rewrites(data []byte) (all []rewrite) {
	if len(data) == 0 {
		return nil
	}
	if field.IsText(data) {
		all = append(digits(data), lines(data)...)
		return slices.Concat(all, values(data), nestings(data))
	}
	return append(integers(data), octets(data)...)
}

// maxPlaces is the maximum number of places of one kind at which data is changed or cut. In longer data they are
// evenly spread, or the first ones.
const maxPlaces = 2000

// stride returns the distance of the places in n bytes.
func stride(n int) int { return 1 + n/maxPlaces }

// splice returns data with data[from:to] replaced.
func splice(data []byte, from, to int, by []byte) []byte {
	return slices.Concat(data[:from], by, data[to:])
}

// integers returns changes of each integer of two or four bytes that may be a length or a count.
func integers(data []byte) (all []rewrite) {
	for _, width := range []int{4, 2} {
		for at := 0; at+width <= len(data); at += stride(len(data)) {
			for _, order := range []binary.ByteOrder{binary.BigEndian, binary.LittleEndian} {
				value := decode(order, data[at:at+width])
				if value > uint64(len(data)+width) {
					continue
				}
				all = append(all, lengths(data, at, width, order, value)...)
			}
		}
	}
	return all
}

func decode(order binary.ByteOrder, data []byte) uint64 {
	if len(data) == 2 {
		return uint64(order.Uint16(data))
	}
	return uint64(order.Uint32(data))
}

func encode(order binary.ByteOrder, width int, value uint64) []byte {
	data := make([]byte, width)
	if width == 2 {
		order.PutUint16(data, uint16(value))
	} else {
		order.PutUint32(data, uint32(value))
	}
	return data
}

// lengths returns the changes of one integer.
func lengths(data []byte, at, width int, order binary.ByteOrder, value uint64) (all []rewrite) {
	top := uint64(1) << (8*width - 1)
	others := []uint64{top - 1, 2*top - 1, 0, top, value + 1}
	if width == 4 {
		others = append(others, 16<<20)
	}
	for _, other := range others {
		if other == value {
			continue
		}
		all = append(all, rewrite{
			"lengths", fmt.Sprintf("the %d bytes at offset %d, %d, are %d (%s)", width, at, value, other, name(order)),
			func() []byte { return splice(data, at, at+width, encode(order, width, other)) }, 0, nil,
		})
	}
	return all
}

func name(order binary.ByteOrder) string {
	if order == binary.ByteOrder(binary.BigEndian) {
		return "big-endian"
	}
	return "little-endian"
}

// octets returns changes of each byte.
func octets(data []byte) (all []rewrite) {
	for at := 0; at < len(data); at += stride(len(data)) {
		value := data[at]
		for _, other := range []byte{0xff, 0, 0x7f, 0x80, value + 1} {
			if other != value {
				all = append(all, rewrite{
					"bytes", fmt.Sprintf("the byte at offset %d, %#02x, is %#02x", at, value, other),
					func() []byte { return splice(data, at, at+1, []byte{other}) }, 0, nil,
				})
			}
		}
	}
	return all
}

var numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`) })

// digits returns changes of each decimal number in a text.
func digits(data []byte) (all []rewrite) {
	for _, at := range numbers().FindAllIndex(data, maxPlaces) {
		for _, other := range []string{"2147483647", "99999999999999999999", "-1", "0", "16777216", "1e999", "x", ""} {
			all = append(all, rewrite{
				"numbers", fmt.Sprintf("the number %s at offset %d is %q", data[at[0]:at[1]], at[0], other),
				func() []byte { return splice(data, at[0], at[1], []byte(other)) }, 0, nil,
			})
		}
	}
	return all
}

var words = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^\s:=,;]+`) })

// lines returns variants in which a line of a text has fewer words, or none.
func lines(data []byte) (all []rewrite) {
	start := 0
	for number, line := range bytes.SplitAfter(data, []byte("\n")) {
		body := bytes.TrimRight(line, "\r\n")
		if len(all) >= maxPlaces {
			break
		}
		for _, at := range words().FindAllIndex(body, maxPlaces) {
			from, to := start+len(bytes.TrimRight(body[:at[0]], " \t")), start+len(body)
			if to-from == len(data) {
				continue // a step must send something
			}
			all = append(all, rewrite{
				"short lines", fmt.Sprintf("line %d ends before %q", number+1, shown(body[at[0]:at[1]])),
				func() []byte { return splice(data, from, to, nil) }, 0, nil,
			})
		}
		start += len(line)
	}
	return all
}

// huge is the size of the largest answers, in bytes. The host reads 1 MiB at most.
const huge = 512 << 10

// nestings returns variants of a text in which a list or an object contains itself many times.
func nestings(data []byte) (all []rewrite) {
	for _, open := range []string{"[", `{"a":`} {
		at := bytes.IndexByte(data, open[0])
		if at < 0 {
			continue
		}
		levels := huge / len(open)
		deep := []byte(strings.Repeat(open, levels))
		part := func(n int) []byte { return splice(data, at, at, deep[:n]) }
		all = append(all, rewrite{
			"nesting", fmt.Sprintf("%q at offset %d is there %d times", open, at, levels),
			func() []byte { return part(len(deep)) }, len(deep), part,
		})
	}
	return all
}

// shown returns the beginning of a word.
func shown(word []byte) string {
	const most = 40
	return strings.ToValidUTF8(string(word[:min(len(word), most)]), "\uFFFD")
}

// value is the place of a value in a JSON document.
type value struct {
	from, to int
}

// values returns changes of each value in a text that is JSON.
func values(data []byte) (all []rewrite) {
	found := places(data)
	for i := 0; i < len(found); i += stride(len(found)) {
		v := found[i]
		for _, other := range []string{"null", `"x"`, `""`, "-1", "1e300", "99999999999999999999", "true", "[]", "{}", `[null]`} {
			all = append(all, rewrite{
				"values of JSON", fmt.Sprintf("the value %s is %s", shown(data[v.from:v.to]), other),
				func() []byte { return splice(data, v.from, v.to, []byte(other)) }, 0, nil,
			})
		}
	}
	return all
}

// places returns the values of a JSON document, outer values after inner ones; nil if data is no JSON document.
func places(data []byte) (found []value) {
	if !json.Valid(data) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	type level struct {
		from, tokens int
		object       bool
	}
	var stack []level
	for {
		before := dec.InputOffset()
		token, err := dec.Token()
		if err == io.EOF {
			return found
		}
		if err != nil {
			return nil
		}
		from, to := int(before), int(dec.InputOffset())
		for strings.IndexByte(" \t\r\n:,", data[from]) >= 0 {
			from++
		}
		if end, ok := token.(json.Delim); ok && (end == '}' || end == ']') {
			found = append(found, value{stack[len(stack)-1].from, to})
			stack = stack[:len(stack)-1]
			continue
		}
		key := false
		if n := len(stack); n > 0 {
			key = stack[n-1].object && stack[n-1].tokens%2 == 0
			stack[n-1].tokens++
		}
		if begin, ok := token.(json.Delim); ok {
			stack = append(stack, level{from: from, object: begin == '{'})
		} else if !key {
			found = append(found, value{from, to})
		}
	}
}
