// Package oracle compares prober's core with the kubelet's prober.
//
// A [Scenario] is the life of one to four pods: their containers and probes, the result of each
// attempt, and the events with their times. [Oracle.Run] plays it, under a fake clock, on one
// side: the kubelet's manager, used as a library, or ours. It writes what it observes to a
// [Record]: every attempt, every cached result, every update that a prompt reader gets, the last
// update of each container that a slow reader gets, every status of UpdatePodStatus, and every
// event with its reference. The records of a scenario must be equal. Removals, which the
// kubelet does not send, are not recorded; that each removed result ends with one is checked
// separately.
//
// Ours plays each scenario twice: with a [manager.StatusSource] that is asked at every tick, as the
// kubelet's is, and with a [manager.StatusPublisher], as in production. Both records are compared
// with the kubelet's, see [Oracle.Diverge]. The second time, the status that the kubelet had after
// an OpSync is published before our UpdatePodStatus is called: see [Oracle.RunPublished].
//
// [Generate] makes scenarios from a seed, and [Shrink] makes a diverging one small. Useful
// scenarios are kept: those in testdata/scenarios find a fault, and those in testdata/switches
// are for the switches of the core. mutants/ has faults that must be found, and the program that
// builds each of them in.
//
//	go test -tags k8s136 -v . -args -scenarios 2000 -seed 7
//
// Not compared, because the kubelet is not deterministic there or we differ on purpose:
//
//   - the random delay of a manager that has just started;
//   - a tick and a trigger that wait for the end of one attempt;
//   - a worker that is stopped during an attempt, which we cancel and the kubelet counts:
//     the stopped probes are not compared until the kubelet's attempt has ended;
//   - of several updates of one container at one instant, all but the last: ours merges
//     unread updates;
//   - a running container without a start time, whose age overflows the kubelet's
//     arithmetic in a way that depends on the processor;
//   - the end of an HTTP warning of more than 10 KiB: the kubelet limits the body, we limit
//     the whole output.
//
// The module is built with -tags k8s136: the kubelet's packages compile with
// k8s.io/* v0.36 only.
package oracle
