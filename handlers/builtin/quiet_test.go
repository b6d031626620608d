package builtin_test

import (
	"io"
	"log"
)

// quiet returns a log for servers whose clients hang up on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
