//go:build !unix

package pushcmd

// foreground reports whether the terminal sends its signals to the command too, as consoles do.
func foreground() bool { return true }
