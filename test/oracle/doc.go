// Package oracle holds prober's core against the kubelet's own prober.
//
// A [Scenario] is the life of one to four pods: what they are made of, how each attempt
// of each probe ends, and what happens when. [Oracle.Run] plays it, under a fake clock, on
// one side: the kubelet's manager, used as a library, or ours. What a side shows is
// written to a [Record]: every attempt, every cached result, every update that a prompt
// reader is told, the last update that a slow reader is told of each container, every
// answer of UpdatePodStatus, every event with its reference. Two records of one scenario
// must be equal. Of our updates the removals are left out, which the kubelet does not
// tell; that each removed result ends with one is checked separately.
//
// [Generate] makes scenarios from a seed, and [Shrink] makes a diverging one small.
// Scenarios that told something are kept: testdata/scenarios has those that tell a
// fault apart, testdata/switches one for each switch of the core. mutants/ has faults
// that must be caught, and the program that builds each of them in.
//
//	go test -tags k8s136 -v . -args -scenarios 2000 -seed 7
//
// Not compared, since the kubelet does not agree with itself there or we differ for
// good:
//
//   - the random delay of a young manager;
//   - a tick and a trigger that wait for the end of one attempt;
//   - a worker that is stopped during an attempt, which we cancel and the kubelet
//     counts: nothing is compared of the stopped probes until the kubelet's attempt is
//     over, and all that follows is;
//   - of several updates of one container at one instant, all but the last: ours merges
//     what nobody has read;
//   - a running container without a start time, whose age overflows the kubelet's
//     arithmetic as the processor likes;
//   - the end of an HTTP warning of more than 10 KiB, where the kubelet's limit is the
//     body's and ours the whole output's.
//
// The module is built with -tags k8s136: the kubelet's packages compile with
// k8s.io/* v0.36 only.
package oracle
