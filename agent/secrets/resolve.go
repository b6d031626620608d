package secrets

import (
	"errors"

	"github.com/daeace23/prober/internal/regular"
)

// MaxSize is the limit of a file with a secret, in bytes.
const MaxSize = 1 << 20

// Resolve returns the value of ${file:NAME} or ${env:NAME} without a policy: it reads any file that the
// process can read. source is "file" or "env". A file must be a regular file, or a symbolic link to one, of
// at most [MaxSize] bytes. If lookupEnv is nil, there are no variables.
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

// trimNewline removes the newline that editors add at the end of a file.
func trimNewline(data []byte) []byte {
	for _, end := range []byte{'\n', '\r'} {
		if n := len(data); n > 0 && data[n-1] == end {
			data = data[:n-1]
		}
	}
	return data
}
