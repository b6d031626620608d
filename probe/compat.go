package probe

// Compat is a set of switches for the core and the built-in handlers. Each switch replaces one of prober's
// deliberate deviations by the behavior of the kubelet. The zero value enables all fixes.
type Compat uint32

const (
	// CompatKeepRun keeps the run of equal results across a container restart that did not follow a hold
	// (kubernetes#53530 fixed it for holds only).
	CompatKeepRun Compat = 1 << iota
	// CompatAddPodStops makes AddPod return at the first probe that already exists (kubernetes#138928).
	CompatAddPodStops
	// CompatStopSkipsSidecars makes StopLivenessAndStartup skip restartable init containers
	// (kubernetes#141766).
	CompatStopSkipsSidecars
	// CompatTriggerAlways triggers a readiness probe at every UpdatePodStatus while the container is not
	// ready, and not only before the first tick (kubernetes#118815).
	CompatTriggerAlways
	// CompatSeedStaleStarted initializes a sidecar's startup result from a Started status that may belong
	// to an older container (kubernetes#137146).
	CompatSeedStaleStarted
	// CompatInheritReplaced lets a container inherit the status of the container that it replaces
	// (kubernetes#141342, kubernetes#141487).
	CompatInheritReplaced
	// CompatStatusFromWorkers makes UpdatePodStatus consider only the probes that have a worker: a probe
	// that was not added yet, or was stopped, does not count (kubernetes#142305). Ready stays unchanged
	// while a container has not started, and init containers are found by their index.
	CompatStatusFromWorkers
	// CompatHerd does not spread probes that were added together over their period.
	CompatHerd
	// CompatBodyHangIsError makes an HTTP body that hangs, is cut off or is reset an
	// error instead of a Failure (kubernetes#122591).
	CompatBodyHangIsError
	// CompatLinger sets SO_LINGER to one second on every socket of the built-in
	// handlers (kubernetes#115143).
	CompatLinger
	// CompatHostTrouble counts faults of the agent's own host as a Failure of the target, as the kubelet
	// does: a timeout that a suspended or starved agent noticed late, and a connection for which the host
	// had no descriptor, memory, port or route. By default such an attempt is an error: see
	// [Reason.OfHost].
	CompatHostTrouble
	// CompatGRPCLibrary makes every attempt of the grpc handler with the kubelet's client (grpc-go). An
	// attempt costs four times as much. By default, that client only continues attempts whose answer is not
	// a plain one, on the same connection. The server sees the same connections and requests, but not the
	// frames PING and WINDOW_UPDATE with which grpc-go estimates the bandwidth.
	CompatGRPCLibrary
	// CompatWallClock measures the initial delay with the wall clock at each tick. If the clock is set
	// back, the probes make no attempts for that time.
	CompatWallClock
	// CompatLateStart spreads first ticks over a whole period, and lets the first attempt after a start or
	// an initial delay wait for the next multiple of the period. By default the first attempt is made at
	// the end of the delay, and within 10 s.
	CompatLateStart
	// CompatPanicSkips skips a tick whose handler panics. By default a panic is an error of the attempt.
	CompatPanicSkips
	// CompatAddPodSkips makes AddPod skip the other probes of a container after it finds one that already
	// exists, as kubelet v1.37 does (kubernetes#138928). [CompatAddPodStops] takes precedence.
	CompatAddPodSkips
	// CompatInitialFailure sends readers no update if the first decision of attempts is Failure, which is
	// the initial result of a readiness probe. By default readers get the update, with its reason and
	// output.
	CompatInitialFailure
	// CompatPortNumbers parses the name of a port that the container does not have as a decimal number, as
	// kubelets before v1.37 did. The error for an invalid number is the kubelet's.
	CompatPortNumbers
	// CompatIgnoreProtocol ignores the protocol of an httpGet action (HTTP/2 without TLS) and the mode of a
	// grpc action (gRPC with TLS). In kubelet v1.37 they are behind feature gates that are off by default;
	// older kubelets do not know them.
	CompatIgnoreProtocol
	// CompatStatusOnRestart resets every result when the agent starts, as kubelets before 1.35 did (feature
	// gate ChangeContainerStatusOnKubeletRestart). It is not part of a profile.
	CompatStatusOnRestart
	// CompatExactTimer runs every tick at its due time. By default a tick may run up to a hundredth of its
	// period later, at most 10 ms, so that the process wakes once for ticks with similar due times. A tick
	// without another one in that window, and a triggered tick, run at once.
	CompatExactTimer
)

// The profiles disable every fix. They have the behavior of a release of the kubelet, except for the
// differences in docs/kubelet-parity.md. The releases are v1.35.4, v1.36.3 and v1.37.2.
const (
	CompatKubeletV1_35 = CompatKubeletV1_36
	CompatKubeletV1_36 = compatEvery | CompatAddPodStops | CompatPortNumbers
	CompatKubeletV1_37 = compatEvery | CompatAddPodSkips

	// compatEvery has the switches of every release.
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
	Name   string // name of the constant, without Compat
	Text   string // the kubelet's behavior that prober avoids, as a sentence without a full stop
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
