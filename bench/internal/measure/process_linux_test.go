package measure_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
)

// TestProcessCPUAgreesWithWait compares /proc/PID/stat with what wait4 returns.
func TestProcessCPUAgreesWithWait(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; read end")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	got, err := measure.ProcessCPU(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	_ = cmd.Wait() // read returns 1 at the end of its input
	want := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if diff := (want - got).Abs(); diff > 30*time.Millisecond {
		t.Errorf("%v by /proc, %v by wait4", got, want)
	}
}

func TestPeakResidentSeesWhatWasFreed(t *testing.T) {
	if err := measure.ResetPeak(); err != nil {
		t.Fatal(err)
	}
	before, err := measure.Resident(0)
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	memory := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		memory[i] = 1
	}
	peak, err := measure.PeakResident()
	if err != nil {
		t.Fatal(err)
	}
	if peak-before < size*9/10 {
		t.Errorf("peak %d above %d, want %d more", peak, before, size)
	}
	if other, err := measure.Resident(os.Getpid()); err != nil || other < size {
		t.Errorf("resident by pid %d, %v", other, err)
	}
	_ = memory[0]
}

func TestMachineIsKnown(t *testing.T) {
	m := measure.ThisMachine()
	if m.Cores < 1 || m.Go == "" || m.CPU == "unknown" || m.Kernel == "unknown" {
		t.Errorf("%+v", m)
	}
}
