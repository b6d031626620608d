//go:build unix

package memory

import "syscall"

// reserve returns size bytes of address space, which become memory when they are
// touched, and zeros. A guest's memory then grows without being copied, and the
// garbage collector does not count it.
func reserve(size uint64) ([]byte, error) {
	return syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func unreserve(space []byte) { _ = syscall.Munmap(space) }
