package netns

// ReplaceSetns replaces the system call setns, and returns a function that restores it.
func ReplaceSetns(call func(fd, kind int) error) (restore func()) {
	before := setns
	setns = call
	return func() { setns = before }
}
