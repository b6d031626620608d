package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func init() {
	linuxHelpers["agent"] = runAgent // MANIFEST
	linuxHelpers["forker"] = fork    // MARK: double-forks processes out of its session, then waits
}

// fork starts a shell in a session of its own, which leaves processes behind that are
// children of no one, one of them in yet another session.
func fork(mark string) int {
	cmd := exec.Command("/bin/sh", "-c", `for i in 1 2 3; do (sleep 600 &); done; setsid sh -c "sleep 600 & sleep 601 &"; exit 0`)
	cmd.Env = append(os.Environ(), "MARK="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("forked")
	wait()
	return 0
}

// wait waits for a signal that never comes. Without one that is asked for, the Go
// runtime would see a deadlock.
func wait() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	<-never
}
