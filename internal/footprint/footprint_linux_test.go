package footprint_test

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/daeace23/prober/internal/footprint"
)

// resident returns the size of the resident pages of the program file in kilobytes.
func resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("RssFile:"))
	kB, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return kB
}

func TestSettleReleasesPagesOfTheProgram(t *testing.T) {
	before := resident(t)
	footprint.Settle()
	if after := resident(t); after >= before {
		t.Errorf("%d kB of files are in memory, and were %d kB", after, before)
	}
}

// TestSettleKeepsChangedPages maps the program file again, and changes a page before it makes the mapping read-only. A
// loader does the same with the relocations of a position-independent program.
func TestSettleKeepsChangedPages(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := syscall.Mmap(int(f.Fd()), 0, 4*os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(data) })
	want := slices.Clone(data)
	for i := range 100 {
		data[os.Getpagesize()+i]++
		want[os.Getpagesize()+i]++
	}
	if err := syscall.Mprotect(data, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	footprint.Settle()
	if !bytes.Equal(data, want) {
		t.Error("a page that was changed is lost")
	}
}
