package procgroup

import (
	"slices"
	"time"
)

// Command is a program that [Capture] runs. Its stdin is empty.
type Command struct {
	Path string   // the program; relative to Dir
	Args []string // the first one is the name of the program
	Dir  string   // "" means the directory of this process
	Env  []string // nil means the environment of this process
	User *User    // nil means the user of this process
}

// User is the user of a process. Only root can start a process as another user, and only on Linux.
type User struct {
	ID     uint32
	Group  uint32
	Groups []uint32 // supplementary groups
}

// Captured is the result of a command.
type Captured struct {
	Stdout, Stderr []byte        // the first bytes of each stream
	Killed         bool          // ctx ended before the command did
	Status         int           // see [ExitStatus]
	CPU            time.Duration // user and system time of the command and of children that it waited for
}

// Output returns the first limit bytes of stdout followed by stderr.
func (c *Captured) Output(limit int) []byte {
	output := c.Stdout
	if len(c.Stderr) > 0 && len(output) < limit {
		output = slices.Concat(c.Stdout, c.Stderr)
	}
	return output[:min(len(output), limit)]
}
