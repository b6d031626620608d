package command

import (
	"fmt"
	"sync"
	"time"
)

// busyAfter is the time after which [Env.Busy] shows its line.
const busyAfter = 200 * time.Millisecond

// Busy shows a line on stderr while an operation is slow, such as the first compilation of a plugin, if
// stderr is a terminal. stop removes the line. Nothing else may write to stderr before it returns.
func (env *Env) Busy(text string) (stop func()) {
	if !IsTerminal(env.Stderr) {
		return func() {}
	}
	ended := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		select {
		case <-ended:
			return
		case <-time.After(busyAfter):
		}
		fmt.Fprintf(env.Stderr, "prober: %s ...", text)
		<-ended
		fmt.Fprint(env.Stderr, "\r\x1b[K")
	})
	return func() { close(ended); showing.Wait() }
}
