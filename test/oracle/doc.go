// Package oracle compares prober's core with the kubelet's prober.
//
// A [Scenario] describes one to four pods over some time: their containers and probes, the result of each
// attempt, and operations with their times. [Oracle.Run] runs it under a fake clock on one side: on the
// kubelet's manager, used as a library, or on ours. It writes a [Record] of its observations: every
// attempt, every cached result, every update that a prompt reader gets, the last update of each container
// that a slow reader gets, every status of UpdatePodStatus, and every event with its reference. The
// records of both sides must be equal. Removals are not recorded, because the kubelet does not send them;
// [Side.LastUpdates] of our side checks that the last update of each removed result is a removal.
//
// Ours runs each scenario twice: with a [manager.StatusSource] that is called at every tick, like the
// kubelet's, and with a [manager.StatusPublisher], as in production. Both records are compared with the
// kubelet's, see [Oracle.Diverge]. In the second run, the status that the kubelet had after an OpSync is
// published before our UpdatePodStatus is called: see [Oracle.RunPublished].
//
// [Generate] makes scenarios from a seed, and [Shrink] reduces a diverging one. testdata/scenarios has
// scenarios that have found a fault, and testdata/switches has one for each switch of the core. mutants/
// has faults that must be found, and the program that builds each of them in.
//
//	go test -tags k8s136 -v . -args -scenarios 2000 -seed 7
//
// Some cases are not compared, because the kubelet is not deterministic or we differ on purpose:
//
//   - the random delay of a manager that has just started;
//   - a tick and a trigger that wait for the end of the same attempt;
//   - a worker that is stopped during an attempt: we cancel the attempt, and the kubelet counts it. The
//     stopped probes are not compared until the kubelet's attempt has ended;
//   - several updates of one container at one instant: only the last is compared, because ours merges
//     unread updates;
//   - a running container without a start time, whose age overflows the kubelet's
//     arithmetic in a way that depends on the processor;
//   - the end of an HTTP warning of more than 10 KiB: the kubelet limits the body, we limit
//     the whole output.
//
// The module is built with -tags k8s136: the kubelet's packages compile with
// k8s.io/* v0.36 only.
package oracle
