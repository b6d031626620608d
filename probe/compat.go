package probe

// Compat is a set of switches for the core and the built-in handlers. Each of them replaces one
// of prober's deliberate deviations from the kubelet by the behaviour of the kubelet. The
// zero value has all fixes on.
type Compat uint32

const (
	// CompatKeepRun keeps the run of equal results across a container restart that did not
	// follow a hold (kubernetes#53530 fixed it for holds only).
	CompatKeepRun Compat = 1 << iota
	// CompatAddPodStops makes AddPod return at the first probe that exists already
	// (kubernetes#138928).
	CompatAddPodStops
	// CompatStopSkipsSidecars makes StopLivenessAndStartup pass over restartable
	// init containers (kubernetes#141766).
	CompatStopSkipsSidecars
	// CompatTriggerAlways triggers a readiness probe at every UpdatePodStatus
	// while the container is not ready, not only before the first tick
	// (kubernetes#118815).
	CompatTriggerAlways
	// CompatSeedStaleStarted seeds a sidecar's startup result from a Started
	// status that may belong to an older container (kubernetes#137146).
	CompatSeedStaleStarted
	// CompatInheritReplaced lets a container inherit the status of the one that it replaces
	// (kubernetes#141342, kubernetes#141487).
	CompatInheritReplaced
	// CompatStatusFromWorkers makes UpdatePodStatus take from the workers which probes a container
	// has: a probe that was not added yet, or was stopped, counts as none (kubernetes#142305). Ready
	// stays as it is while a container has not started, and init containers are found by their index.
	CompatStatusFromWorkers
	// CompatHerd does not spread probes that were added together over their period.
	CompatHerd
	// CompatBodyHangIsError makes an HTTP body that hangs, is cut off or is reset an
	// error instead of a Failure (kubernetes#122591).
	CompatBodyHangIsError
	// CompatLinger sets SO_LINGER to one second on every socket of the built-in
	// handlers (kubernetes#115143).
	CompatLinger
	// CompatHostTrouble makes faults of the agent's own host a Failure of the target, as
	// the kubelet does: a timeout that a stopped or starved agent noticed late, and a
	// connection for which there was no descriptor, memory, port or route.
	// Otherwise such an attempt is an error: see [Reason.OfHost].
	CompatHostTrouble
	// CompatGRPCLibrary makes every attempt of the grpc handler with the kubelet's client
	// (grpc-go). An attempt costs four times as much. Otherwise that client only continues
	// the attempts whose answer is not a plain one, on their connections. The server sees the
	// same connections and requests, but not the frames PING and WINDOW_UPDATE with which
	// grpc-go estimates the bandwidth.
	CompatGRPCLibrary
	// CompatWallClock counts the initial delay by the wall clock, as it is at each tick: a clock that is set
	// back silences the probes.
	CompatWallClock
	// CompatLateStart spreads first ticks over a whole period, and lets the first attempt after a start or
	// an initial delay wait for the next multiple of the period. By default it comes when the delay ends,
	// and within 10 s.
	CompatLateStart
	// CompatPanicSkips skips a tick whose handler panics. By default a panic is an error of the attempt.
	CompatPanicSkips
	// CompatAddPodSkips makes AddPod pass over the rest of the probes of a container, once it finds one that
	// exists already, as kubelet v1.37 does (kubernetes#138928). [CompatAddPodStops] comes before it.
	CompatAddPodSkips
	// CompatInitialFailure sends readers no update when the first decision of attempts is the Failure that a
	// readiness probe has from the start. By default readers get it, with its reason and output.
	CompatInitialFailure
	// CompatPortNumbers takes the name of a port that the container does not have for a decimal number, as
	// kubelets before v1.37 did, with their error for one that is none.
	CompatPortNumbers
	// CompatIgnoreProtocol ignores the protocol of an httpGet and the mode of a grpc action: HTTP/2 without TLS and
	// gRPC with TLS. Kubelet v1.37 knows them behind feature gates that are off, and older ones do not know them.
	CompatIgnoreProtocol
	// CompatStatusOnRestart resets every result when the agent starts, as kubelets
	// before 1.35 did (feature gate ChangeContainerStatusOnKubeletRestart). It is
	// not part of a profile.
	CompatStatusOnRestart
	// CompatExactTimer runs every tick when it is due. By default a tick comes within a hundredth of its period
	// after that, 10 ms at most, so that the process wakes once for ticks that are due at about the same time. A
	// tick that no other one follows within that window, and one that is triggered, come at once.
	CompatExactTimer
)

// The profiles turn every fix off: the behaviour of a release of the kubelet, except for what
// docs/kubelet-parity.md names as different. The releases are v1.35.4, v1.36.3 and v1.37.2.
const (
	CompatKubeletV1_35 = CompatKubeletV1_36
	CompatKubeletV1_36 = compatEvery | CompatAddPodStops | CompatPortNumbers
	CompatKubeletV1_37 = compatEvery | CompatAddPodSkips

	// compatEvery are the switches of every release.
	compatEvery = CompatKeepRun | CompatStopSkipsSidecars | CompatTriggerAlways | CompatSeedStaleStarted | CompatInheritReplaced |
		CompatStatusFromWorkers | CompatHerd | CompatBodyHangIsError | CompatLinger | CompatHostTrouble | CompatGRPCLibrary |
		CompatWallClock | CompatLateStart | CompatPanicSkips | CompatInitialFailure | CompatIgnoreProtocol |
		CompatExactTimer
)

// Has reports whether all switches of x are on in c.
func (c Compat) Has(x Compat) bool { return c&x == x }

// KubeletRelease is a release of the kubelet with its profile.
type KubeletRelease struct {
	Name   string // such as 1.37
	Compat Compat
}

// KubeletReleases returns the releases that have a profile, the oldest first.
func KubeletReleases() []KubeletRelease {
	return []KubeletRelease{{"1.35", CompatKubeletV1_35}, {"1.36", CompatKubeletV1_36}, {"1.37", CompatKubeletV1_37}}
}

// CompatSwitch describes one switch of [Compat].
type CompatSwitch struct {
	Compat Compat
	Name   string // of the constant, without Compat
	Text   string // what a kubelet does that prober does not do: a sentence without a full stop
}

// CompatSwitches returns all switches.
func CompatSwitches() []CompatSwitch {
	return []CompatSwitch{
		{CompatKeepRun, "KeepRun", "equal results before and after a restart of the container count as one run for the thresholds"},
		{CompatAddPodStops, "AddPodStops", "a probe that was stopped is not started again if another one of the pod runs, and comes before it"},
		{CompatStopSkipsSidecars, "StopSkipsSidecars", "the probe goes on while the pod terminates, since the container is a sidecar"},
		{CompatTriggerAlways, "TriggerAlways", "each change of the pod's status makes an attempt at once while the container is not ready"},
		{CompatSeedStaleStarted, "SeedStaleStarted", "a restarted sidecar may count as started at once, by the status of the container before it"},
		{CompatInheritReplaced, "InheritReplaced", "after a restart of the agent a container may have the result of the one that it replaces"},
		{CompatStatusFromWorkers, "StatusFromWorkers", "the container counts as ready, or as started, while the probe was not added yet or was stopped"},
		{CompatHerd, "Herd", "probes that were added together make their attempts together"},
		{CompatBodyHangIsError, "BodyHangIsError", "a body that hangs or is cut off decides nothing, and does not count as a failure"},
		{CompatLinger, "Linger", "connections are closed with SO_LINGER of one second"},
		{CompatHostTrouble, "HostTrouble", "trouble of the agent's own host, such as no descriptor or no route, counts as a failure of the target"},
		{CompatGRPCLibrary, "GRPCLibrary", "attempts are made with grpc-go, which costs four times as much"},
		{CompatWallClock, "WallClock", "the initial delay is counted by the wall clock: no attempts are made after it is set back"},
		{CompatLateStart, "LateStart", "the first attempt waits for a random part of the period after a start of the agent, or for the next multiple of the period"},
		{CompatPanicSkips, "PanicSkips", "a panic of the handler skips the attempt, and is not an error of it"},
		{CompatAddPodSkips, "AddPodSkips", "a probe that was stopped is not started again if another one of the container runs, and comes before it"},
		{CompatInitialFailure, "InitialFailure", "no change is reported when the first attempts decide that the container is not ready, as it was from the start"},
		{CompatPortNumbers, "PortNumbers", "a name of a port that the container does not have is taken for a number"},
		{CompatIgnoreProtocol, "IgnoreProtocol", "protocol HTTP2 is ignored, and HTTP/1.1 is sent; mode TLS is ignored, and gRPC is sent without TLS"},
		{CompatStatusOnRestart, "StatusOnRestart", "a restart of the agent resets the result"},
		{CompatExactTimer, "ExactTimer", "each attempt is made when it is due: it does not wait for others, up to a hundredth of the period and 10 ms at most"},
	}
}
