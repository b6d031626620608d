package process

import (
	"io"
	"testing"
	"testing/synctest"
)

// go-plugin counts its readers of the two outputs one after the other. The first must not end before the
// second has been counted.
func TestStderrEndsAfterStdoutWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &child{taken: make(chan struct{})}
		ended := false
		go func() {
			data, err := io.ReadAll(c.Stderr())
			if len(data) > 0 || err != nil {
				t.Errorf("standard error: %q, %v", data, err)
			}
			ended = true
		}()
		if synctest.Wait(); ended {
			t.Fatal("standard error ended before standard output was taken")
		}
		c.Stdout()
		if synctest.Wait(); !ended {
			t.Fatal("standard error did not end")
		}
	})
}
