//go:build unix

package memory

import "syscall"

// reserve maps size bytes of zeros. A page takes memory only after its first use. So the memory of a
// guest grows without being copied, and the garbage collector does not count it.
func reserve(size uint64) ([]byte, error) {
	return syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func unreserve(space []byte) { _ = syscall.Munmap(space) }
