package load

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
)

// profiled calls f. It writes a processor profile of the call, and a heap profile after it.
func profiled(r *Request, f func() error) (err error) {
	name := fmt.Sprintf("%s-%d-%ds-*", strings.ReplaceAll(r.Subject, " ", "-"), r.Probes, r.Period)
	cpu, err := os.CreateTemp(r.Profiles, name+".cpu")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	err = f()
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	heap, err := os.CreateTemp(r.Profiles, name+".heap")
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(heap), heap.Close())
}
