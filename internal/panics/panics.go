// Package panics converts panics of foreign functions to errors.
package panics

import "fmt"

// Call calls f. If f panics, it returns an error with the value of the panic.
func Call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}
