package trust

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/plugin"
)

// Suffix is what the name of a signature has behind the name of what it signs.
const Suffix = ".sig"

const (
	header     = "prober.dev/signature/v1" // of signature files and of what is signed
	headerOf   = "prober.dev/signature/"   // of any version
	algorithm  = "ed25519"
	maxSigners = 16
)

// line is one line of a signature file.
type line struct {
	keyID     string
	signature []byte // ed25519.SignatureSize bytes
}

// base64Text is the one spelling of base64 that is read: no two texts mean the same.
var base64Text = base64.StdEncoding.Strict()

// parse reads a signature file. Anything that [format] would not have written is an
// error.
func parse(data []byte) ([]line, error) {
	text, ok := strings.CutSuffix(string(data), "\n")
	if !ok {
		return nil, errors.New("cut off: the last line does not end")
	}
	rows := strings.Split(text, "\n")
	if rows[0] != header {
		return nil, fmt.Errorf("the first line is %.40q; this version of prober reads %q", rows[0], header)
	}
	rows = rows[1:]
	if len(rows) == 0 || len(rows) > maxSigners {
		return nil, fmt.Errorf("%d signatures; want 1 to %d", len(rows), maxSigners)
	}
	var lines []line
	for i, row := range rows {
		l, err := parseLine(row)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		if slices.ContainsFunc(lines, func(other line) bool { return other.keyID == l.keyID }) {
			return nil, fmt.Errorf("line %d: key %s is there twice", i+2, l.keyID)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func parseLine(row string) (l line, err error) {
	fields := strings.Split(row, " ")
	if len(fields) != 3 {
		return l, fmt.Errorf("want %q, a key id and a signature", algorithm)
	}
	if fields[0] != algorithm {
		return l, fmt.Errorf("the algorithm is %.20q; want %q", fields[0], algorithm)
	}
	if id, err := hex.DecodeString(fields[1]); err != nil || len(id) != 16 || strings.ToLower(fields[1]) != fields[1] {
		return l, fmt.Errorf("%.40q is no key id: want 32 hexadecimal digits in lower case", fields[1])
	}
	signature, err := base64Text.DecodeString(fields[2])
	if err != nil || len(signature) != ed25519.SignatureSize || strings.Contains(fields[2], "\r") {
		return l, fmt.Errorf("%.40q is no signature: want %d bytes in base64", fields[2], ed25519.SignatureSize)
	}
	return line{fields[1], signature}, nil
}

// format is the inverse of [parse].
func format(lines []line) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, header)
	for _, l := range lines {
		fmt.Fprintln(&b, algorithm, l.keyID, base64Text.EncodeToString(l.signature))
	}
	return b.Bytes()
}

// statement is what is signed of a plugin.
func statement(f *plugin.Found) []byte {
	text := header + "\nmodule " + plugin.Digest(f.Module) + "\n"
	if f.Beside != "" {
		text += "manifest " + f.Beside + "\n"
	}
	return []byte(text)
}

// Sign returns the signature file of f with the signature of key, and those that others
// made before, if any: the contents of the file until now. Those of keys that signed
// other bytes make the plugin one that is refused, so leave them out unless f has
// stayed the same.
func (k PrivateKey) Sign(f *plugin.Found, others []byte) ([]byte, error) {
	var lines []line
	if others != nil {
		var err error
		if lines, err = parse(others); err != nil {
			return nil, err
		}
		lines = slices.DeleteFunc(lines, func(l line) bool { return l.keyID == k.ID })
	}
	if len(lines) == maxSigners {
		return nil, fmt.Errorf("%d keys have signed already; more are not allowed", maxSigners)
	}
	return format(append(lines, line{k.ID, ed25519.Sign(k.private, statement(f))})), nil
}
