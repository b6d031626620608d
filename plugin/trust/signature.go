package trust

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/plugin"
)

// Suffix is appended to the name of a signed file to make the name of its signature file.
const Suffix = ".sig"

const (
	header     = "prober.dev/signature/v1" // of signature files and of the signed text
	headerOf   = "prober.dev/signature/"   // of any version
	algorithm  = "ed25519"
	maxSigners = 16
)

// line is one line of a signature file.
type line struct {
	keyID     string
	signature []byte // ed25519.SignatureSize bytes
}

// base64Text accepts only one text for each signature.
var base64Text = base64.StdEncoding.Strict()

// parse parses a signature file. It accepts only the output of [format].
func parse(data []byte) ([]line, error) {
	text, ok := strings.CutSuffix(string(data), "\n")
	if !ok {
		return nil, errors.New("truncated: the last line has no newline")
	}
	rows := strings.Split(text, "\n")
	if rows[0] != header {
		return nil, fmt.Errorf("the first line is %.40q, must be %q", rows[0], header)
	}
	rows = rows[1:]
	if len(rows) == 0 || len(rows) > maxSigners {
		return nil, fmt.Errorf("%d signatures, must be 1 to %d", len(rows), maxSigners)
	}
	var lines []line
	for i, row := range rows {
		l, err := parseLine(row)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		if slices.ContainsFunc(lines, func(other line) bool { return other.keyID == l.keyID }) {
			return nil, fmt.Errorf("line %d: key %s occurs twice", i+2, l.keyID)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func parseLine(row string) (l line, err error) {
	fields := strings.Split(row, " ")
	if len(fields) != 3 {
		return l, fmt.Errorf("must be %q, the ID of a key and a signature", algorithm)
	}
	if fields[0] != algorithm {
		return l, fmt.Errorf("the algorithm is %.20q, must be %q", fields[0], algorithm)
	}
	if _, err := parseKeyID(fields[1]); err != nil {
		return l, err
	}
	signature, err := base64Text.DecodeString(fields[2])
	if err != nil || len(signature) != ed25519.SignatureSize || strings.Contains(fields[2], "\r") {
		return l, fmt.Errorf("%.40q is not a signature: must be %d bytes in base64", fields[2], ed25519.SignatureSize)
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

// statement returns the text that a key signs for a plugin.
func statement(f *plugin.Found) []byte {
	text := header + "\nmodule " + f.ModuleDigest() + "\n"
	if f.Beside != "" {
		text += "manifest " + f.Beside + "\n"
	}
	return []byte(text)
}

// Sign returns the contents of the signature file of f: the signature of k and the signatures in
// others, the previous contents or nil. A signature of other bytes causes a refusal, so pass others
// only if f has not changed.
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
		return nil, fmt.Errorf("%d keys have signed it, and no more are allowed", maxSigners)
	}
	return format(append(lines, line{k.ID, ed25519.Sign(k.private, statement(f))})), nil
}
