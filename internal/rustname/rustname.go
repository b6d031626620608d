// Package rustname reads the symbol names of the Rust compiler, which it leaves mangled in WebAssembly modules.
package rustname

import (
	"strconv"
	"strings"
	"unicode"
)

const (
	maxSymbol = 4 << 10 // bytes of a symbol; longer ones are not read
	maxName   = 1 << 10 // bytes of a name; longer ones are cut
)

// Demangle returns the path in a symbol of Rust, such as "core::panicking::panic", without hashes and lifetimes. It
// knows both kinds of symbols, legacy ("_ZN…17h0123456789abcdefE") and v0 ("_R…"). ok is false for any other name.
// The work is bounded, since symbols come from modules of others.
func Demangle(symbol string) (name string, ok bool) {
	if len(symbol) > maxSymbol || strings.ContainsFunc(symbol, func(r rune) bool { return r > unicode.MaxASCII }) {
		return "", false
	}
	if rest, found := strings.CutPrefix(symbol, "_ZN"); found {
		name, ok = legacy(rest)
	} else if rest, found := strings.CutPrefix(symbol, "_R"); found {
		name, ok = v0(rest)
	}
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "..."
	}
	return name, ok
}

// legacy reads "4core9panicking5panic17h0123456789abcdefE". The last part is a hash. Without it the symbol is one of
// C++.
func legacy(text string) (string, bool) {
	var parts []string
	for !strings.HasPrefix(text, "E") {
		n, rest, ok := decimal(text)
		if !ok || n == 0 || n > len(rest) {
			return "", false
		}
		parts = append(parts, rest[:n])
		text = rest[n:]
	}
	if len(parts) < 2 || !isHash(parts[len(parts)-1]) {
		return "", false
	}
	parts = parts[:len(parts)-1]
	for i, part := range parts {
		parts[i] = unescape(part)
	}
	return strings.Join(parts, "::"), true
}

// isHash reports whether part is "h" and 16 hexadecimal digits.
func isHash(part string) bool {
	return len(part) == 17 && part[0] == 'h' && strings.Trim(part[1:], "0123456789abcdef") == ""
}

// escapes are the escapes of the legacy mangling, without code points.
var escapes = strings.NewReplacer(
	"$SP$", "@", "$BP$", "*", "$RF$", "&", "$LT$", "<", "$GT$", ">", "$LP$", "(", "$RP$", ")", "$C$", ",", "..", "::",
)

// unescape decodes a part of a legacy symbol. A part that begins with an escape has an underscore before it.
func unescape(part string) string {
	if strings.HasPrefix(part, "_$") {
		part = part[1:]
	}
	var b strings.Builder
	rest := escapes.Replace(part)
	for {
		before, after, _ := strings.Cut(rest, "$u")
		code, end, found := strings.Cut(after, "$")
		r, err := strconv.ParseUint(code, 16, 21)
		if !found || err != nil {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(before + string(rune(r)))
		rest = end
	}
}

// decimal reads a decimal number of at most four digits.
func decimal(text string) (n int, rest string, ok bool) {
	i := 0
	for i < len(text) && i < 4 && '0' <= text[i] && text[i] <= '9' {
		n = 10*n + int(text[i]-'0')
		i++
	}
	return n, text[i:], i > 0
}
