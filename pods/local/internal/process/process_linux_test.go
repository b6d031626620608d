package process

import (
	"errors"
	"io"
	"testing"
)

func TestStartWaitsForOthersUntilCanceled(t *testing.T) {
	for range cap(starting) {
		starting <- struct{}{}
	}
	cancel, ended := make(chan struct{}), make(chan error)
	go func() {
		_, err := Start(Launch{}, &Output{W: io.Discard}, cancel)
		ended <- err
	}()
	close(cancel)
	if err := <-ended; !errors.Is(err, ErrCanceled) {
		t.Errorf("got %v", err)
	}
	for range cap(starting) {
		<-starting
	}
	if _, err := Start(Launch{}, &Output{W: io.Discard}, cancel); !errors.Is(err, ErrCanceled) {
		t.Errorf("got %v after the end of the others", err)
	}
}
