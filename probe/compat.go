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
	// CompatStatusOnRestart resets every result when the agent starts, as kubelets
	// before 1.35 did (feature gate ChangeContainerStatusOnKubeletRestart). It is
	// not part of a profile.
	CompatStatusOnRestart
)

// The profiles turn every fix off: the behaviour of a release of the kubelet, except that results never block a
// worker and that attempts can be cancelled. The releases are v1.35.4, v1.36.3 and v1.37.2.
const (
	CompatKubeletV1_35 = CompatKubeletV1_36
	CompatKubeletV1_36 = compatEvery | CompatAddPodStops
	CompatKubeletV1_37 = compatEvery | CompatAddPodSkips

	// compatEvery are the switches of every release.
	compatEvery = CompatKeepRun | CompatStopSkipsSidecars | CompatTriggerAlways | CompatSeedStaleStarted | CompatInheritReplaced |
		CompatStatusFromWorkers | CompatHerd | CompatBodyHangIsError | CompatLinger | CompatHostTrouble | CompatGRPCLibrary |
		CompatWallClock | CompatLateStart | CompatPanicSkips | CompatInitialFailure
)

// Has reports whether all switches of x are on in c.
func (c Compat) Has(x Compat) bool { return c&x == x }
