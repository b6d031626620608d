//go:build !linux

package local

// ShimMain does nothing: local pods need Linux.
func ShimMain() int { return 64 }

type process struct{ exited chan struct{} }

// startProcess always fails.
func startProcess(string, launch, *lineWriter) (*process, error) { return nil, ErrNeedsLinux }

func (p *process) terminate() {}
func (p *process) kill()      {}
func (p *process) exit() exit { return exit{} }
