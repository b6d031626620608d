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

// fork starts a shell in its own session. The shell leaves orphans behind, one of them in another session.
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

// wait blocks forever. Without signal.Notify, the Go runtime would report a deadlock.
func wait() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	<-never
}
