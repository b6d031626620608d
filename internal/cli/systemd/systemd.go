// Package systemd notifies systemd of an agent's state, if the agent runs as a unit with Type=notify.
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

// Notify sends a step to the socket in NOTIFY_SOCKET. If it is not set, Notify does nothing.
func Notify(s agent.Step) { send(states[s]) }

// send drops errors: a manager that does not listen has ended, or will stop this process itself.
func send(state string) { _, _ = daemon.SdNotify(false, state) }

// Interval returns the WatchdogSec of the unit of this process, 0 for none.
func Interval() time.Duration {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0 // not set by systemd
	}
	return interval
}

// Watch pings the watchdog of systemd four times per interval until ctx ends. It sends no ping while stalled
// returns half of the interval or more, or does not return. After an interval without a ping, systemd
// restarts the unit. stalled returns for how long due probes have not been run.
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
