//go:build unix

package memory

import "syscall"

// reserve returns size bytes of zeros, which take memory when they are first used. So the
// memory of a guest grows without being copied, and the garbage collector does not count it.
func reserve(size uint64) ([]byte, error) {
	return syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func unreserve(space []byte) { _ = syscall.Munmap(space) }
