package abi

import "fmt"

// Errno is the error of a host call: an error number of WASI preview 1. The call returns it negated.
type Errno int32

// The numbers in use.
const (
	OK           Errno = 0
	EACCES       Errno = 2 // denied by the operator's grants
	EAGAIN       Errno = 6
	EBADF        Errno = 8
	ECONNREFUSED Errno = 14
	ECONNRESET   Errno = 15
	EDQUOT       Errno = 19 // a limit of the attempt was reached
	EFAULT       Errno = 21 // a pointer outside the guest's memory
	EHOSTUNREACH Errno = 23
	EINVAL       Errno = 28
	EIO          Errno = 29
	EMFILE       Errno = 33
	EMSGSIZE     Errno = 35
	ENETUNREACH  Errno = 40
	ENOENT       Errno = 44
	ENOTSUP      Errno = 58
	EPERM        Errno = 63
	EPIPE        Errno = 64
	EPROTO       Errno = 65
	ETIMEDOUT    Errno = 73
)

var errnoTexts = map[Errno]string{
	OK:           "success",
	EACCES:       "denied",
	EAGAIN:       "try again",
	EBADF:        "bad handle",
	ECONNREFUSED: "connection refused",
	ECONNRESET:   "connection reset",
	EDQUOT:       "limit reached",
	EFAULT:       "bad pointer",
	EHOSTUNREACH: "host unreachable",
	EINVAL:       "invalid argument",
	EIO:          "input/output error",
	EMFILE:       "too many handles",
	EMSGSIZE:     "too long",
	ENETUNREACH:  "network unreachable",
	ENOENT:       "not found",
	ENOTSUP:      "not supported",
	EPERM:        "not granted",
	EPIPE:        "broken pipe",
	EPROTO:       "protocol error",
	ETIMEDOUT:    "timed out",
}

// Error returns a short text for e.
func (e Errno) Error() string {
	if text, ok := errnoTexts[e]; ok {
		return text
	}
	return fmt.Sprintf("errno %d", int32(e))
}

// Timeout reports whether e is a timeout. It implements [net.Error].
func (e Errno) Timeout() bool { return e == ETIMEDOUT || e == EAGAIN }

// Code returns the result of a host call that fails with e.
func (e Errno) Code() int32 { return -int32(e) }
