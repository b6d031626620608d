package secrets

import (
	"errors"

	"github.com/daeace23/prober/internal/regular"
)

// MaxSize is the most bytes that the file of a secret may have.
const MaxSize = 1 << 20

// Resolve returns what ${file:NAME} or ${env:NAME} stands for, for whoever resolves the
// config of a probe without an agent: without a policy. source is "file" or "env". A file must be a regular
// one, or a symbolic link to one, of at most [MaxSize] bytes. lookupEnv may be nil: then
// there are no variables. It reads any file that the process can: whoever resolves what
// others have written decides first what they may refer to.
func Resolve(lookupEnv func(name string) (string, bool), source, name string) (string, error) {
	if source == "env" {
		if lookupEnv != nil {
			if value, ok := lookupEnv(name); ok {
				return value, nil
			}
		}
		return "", errors.New("the agent has no such variable")
	}
	data, err := regular.Read(name, MaxSize)
	return string(trimNewline(data)), err
}

// trimNewline takes off the one newline that editors put at the end of a file.
func trimNewline(data []byte) []byte {
	for _, end := range []byte{'\n', '\r'} {
		if n := len(data); n > 0 && data[n-1] == end {
			data = data[:n-1]
		}
	}
	return data
}
