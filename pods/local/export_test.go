package local

import "os"

// HangDisk makes saves of p wait until the channel is closed. It is called before Start.
func (p *Pods) HangDisk(until <-chan struct{}) {
	p.state.create = func(path string) (*os.File, error) {
		<-until
		return create(path)
	}
}
