// Package oracle holds prober's core against the kubelet's own prober.
//
// A [Scenario] is the life of a pod or two: what they are made of, how each attempt
// of each probe ends, and what happens when. [Oracle.Run] plays it, under a fake clock, on
// one side: the kubelet's manager, used as a library, or ours. What a side lets be
// seen is written to a [Record]: every attempt, every cached result, every answer of
// UpdatePodStatus, every event. Two records of one scenario must be equal.
//
// [Generate] makes scenarios from a seed, and [Shrink] makes a diverging one small.
// Scenarios that told something are kept: testdata/scenarios has those that tell a
// fault apart, testdata/switches one for each switch of the core.
//
//	go test -tags k8s136 -v . -args -scenarios 2000 -seed 7
//
// Not compared, since the kubelet does not agree with itself there or we differ for
// good: the random delay of a young manager; a tick and a trigger that wait for the
// end of one attempt; a worker that is stopped during an attempt, which we cancel and
// the kubelet counts; a running container without a start time, whose age overflows
// the kubelet's arithmetic as the processor likes; the end of an HTTP warning of more
// than 10 KiB, where the kubelet's limit is the body's and ours the whole output's.
//
// The module is built with -tags k8s136: the kubelet's packages compile with
// k8s.io/* v0.36 only.
package oracle
