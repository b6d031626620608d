//go:build !linux

package local

import (
	"errors"
)

// ShimMain does nothing: local processes need Linux.
func ShimMain() int { return 64 }

type process struct{ exited chan struct{} }

func startProcess(string, launch, *lineWriter) (*process, error) {
	return nil, errors.New("containers with a command need Linux; one without is an external target")
}

func (p *process) terminate() {}
func (p *process) kill()      {}
func (p *process) exit() exit { return exit{} }
