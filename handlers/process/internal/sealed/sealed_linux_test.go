package sealed

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSealWaitsForPagesInUse(t *testing.T) {
	fd, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "copy")
	defer file.Close()
	if _, err := file.WriteString("code"); err != nil {
		t.Fatal(err)
	}
	held, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("a page is in use: got %v, want EBUSY", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = unix.Munmap(held) })
	if err := seal(file); err != nil {
		t.Error(err)
	}
	if _, err := file.WriteString("more"); !errors.Is(err, unix.EPERM) {
		t.Errorf("a write to the sealed file: got %v, want EPERM", err)
	}
}
