// Package panics makes errors of the panics of functions that others have written.
package panics

import "fmt"

// Call calls f. If f panics, the error has the value of the panic.
func Call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}
