// Package endless has WebAssembly guests with various endless computations, for tests and benchmarks of the
// deadline.
package endless

import (
	"encoding/binary"
	"strings"
)

// Guest is a module in the binary format. Its function probe never returns, and it has 32 MiB of
// memory.
type Guest struct {
	Name   string // describes the computation
	Module []byte
}

// Depths of [Guests].
const (
	Deep    = 97_152
	Shallow = 1_500 // wazero's interpreter allows 2,000
)

// Instructions and parts of function bodies. A body has two locals of type i32, and uses the first one.
const (
	get, set, tee  = "\x20\x00", "\x21\x00", "\x22\x00" // the local
	zero, one, all = "\x41\x00", "\x41\x01", "\x41\x7f" // all bits
	drop           = "\x1a"
	call           = "\x10\x02" // callee
	add, mul, mask = "\x6a", "\x6c", "\x71"
	triple         = get + "\x41\x03" + mul + set
	odd            = get + one + "\x72"                    // the local with its lowest bit
	divide         = odd + all + odd + "\x6e" + set + drop // all bits by odd
	memory         = "\x41\x80\x80\x80\x10"                // 32 MiB
	most           = "\x41\xff\xff\xff\x0f"                // 32 MiB - 1
	miss           = get + "\x41\xc5\x20" + add + most + mask + tee + "\x28\x00\x00" + get + add + set
)

// Guests returns the guests. The calls of "deep recursion" nest depth deep.
func Guests(depth int) []Guest {
	const same = get // callee returns its parameter
	const fibonacci = get + "\x41\x02\x48\x04\x40" + one + "\x0f\x0b" + get + one + "\x6b" + call + get + "\x41\x02\x6b" + call + add
	const nested = get + "\x45\x04\x40" + one + "\x0f\x0b" + get + one + "\x6b" + call + "\x41\x07" + mul
	return []Guest{
		{"empty loop", loop("", same)},
		{"long loop", loop(strings.Repeat(triple, 3000), same)},
		{"divisions", loop(strings.Repeat(divide, 50), same)},
		{"dispatcher", loop(dispatch(200), same)},
		{"recursion", guest("\x41\x3c"+call+drop, fibonacci)}, // the 60th number: some days
		{"deep recursion", loop(constant(depth)+call+drop, nested)},
		{"fill", loop(zero+one+memory+"\xfc\x0b\x00", same)},
		{"copy", loop(zero+one+most+"\xfc\x0a\x00\x00", same)},
		{"copy back", loop(one+zero+most+"\xfc\x0a\x00\x00", same)},
		{"misses", loop(strings.Repeat(miss, 10), same)},
		{"calls", loop(one+call+drop, same)},
		{"table", loop(one+one+"\x11\x01\x00"+drop, same)},
		{"host", loop(one+"\x10\x00"+drop, same)},
		{"host by table", loop(one+zero+"\x11\x01\x00"+drop, same)},
		{"grow", loop(all+"\x40\x00"+drop, same)},
	}
}

// dispatch returns a br_table with n targets, each with a computation.
func dispatch(n int) string {
	var b strings.Builder
	b.WriteString(strings.Repeat("\x02\x40", n) + get + zero + mul + "\x0e" + unsigned(n-1))
	for i := range n {
		b.WriteString(unsigned(i))
	}
	b.WriteString(strings.Repeat("\x0b"+strings.Repeat(triple, 5), n))
	return b.String()
}

// loop returns a guest that repeats a body.
func loop(body, callee string) []byte { return guest("\x03\x40"+body+"\x0c\x00\x0b", callee) }

// guest returns a guest whose function probe has the given body. Function 0 is the host's log_enabled, 1
// is probe, and 2 is callee, which takes and returns an i32. A table of 8 entries alternates between the functions 0
// and 2, which have type 1.
func guest(body, callee string) []byte {
	return []byte("\x00asm\x01\x00\x00\x00" +
		section(1, "\x02\x60\x00\x01\x7f\x60\x01\x7f\x01\x7f") +
		section(2, "\x01\x09prober_v1\x0blog_enabled\x00\x01") +
		section(3, "\x02\x00\x01") + section(4, "\x01\x70\x00\x08") + section(5, "\x01\x00\x80\x04") +
		section(7, "\x02\x06memory\x02\x00\x05probe\x00\x01") +
		section(9, "\x01\x00\x41\x00\x0b\x08\x00\x02\x00\x02\x00\x02\x00\x02") +
		section(10, "\x02"+sized("\x01\x02\x7f"+body+zero+"\x0b")+sized("\x00"+callee+"\x0b")))
}

func section(id byte, body string) string { return string(id) + sized(body) }

func sized(body string) string { return unsigned(len(body)) + body }

// unsigned returns n in unsigned LEB128.
func unsigned(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }

// constant returns an i32.const instruction with n in signed LEB128.
func constant(n int) string {
	encoded := unsigned(n)
	if last := len(encoded) - 1; encoded[last]&0x40 != 0 { // the sign
		encoded = encoded[:last] + string([]byte{encoded[last] | 0x80, 0})
	}
	return "\x41" + encoded
}
