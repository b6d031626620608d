// Package systemd tells systemd what an agent does, if the agent runs as a unit with Type=notify.
// [Notify] sends the steps of an agent, and [Watch] is its watchdog.
package systemd

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/daeace23/prober/agent"
)

// states are the messages about the steps of an agent; see sd_notify(3).
var states = map[agent.Step]string{
	agent.Ready:     daemon.SdNotifyReady + "\nSTATUS=probing",
	agent.Reloading: daemon.SdNotifyReloading + "\nSTATUS=reading manifests, prober.yaml and plugins again",
	agent.Stopping:  daemon.SdNotifyStopping + "\nSTATUS=stopping pods",
}

// Notify tells a step to the socket in NOTIFY_SOCKET. Without one it does nothing.
func Notify(s agent.Step) { send(states[s]) }

// send drops errors: a manager that does not listen is gone, or stops this process by itself.
func send(state string) { _, _ = daemon.SdNotify(false, state) }

// Interval returns the WatchdogSec of the unit of this process, 0 for none.
func Interval() time.Duration {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0 // not set by systemd
	}
	return interval
}

// Watch tells systemd four times an interval that the agent lives, until ctx ends. It does not while
// stalled returns half of the interval or more: when the interval is over, systemd restarts the unit.
// stalled returns how long probes that are due have not been run. If it does not return, that counts as
// a stall too.
func Watch(ctx context.Context, interval time.Duration, stalled func() time.Duration) {
	watch(ctx, interval, stalled, send)
}

func watch(ctx context.Context, interval time.Duration, stalled func() time.Duration, send func(string)) {
	ticker := time.NewTicker(interval / 4)
	defer ticker.Stop()
	for was := false; ; {
		switch d := stalled(); {
		case d >= interval/2:
			was = true
			send(fmt.Sprintf("STATUS=no probe has run for %s although some are due", d.Round(time.Second)))
		case was:
			was = false
			send(daemon.SdNotifyWatchdog + "\nSTATUS=probing")
		default:
			send(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
