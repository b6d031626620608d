// Package oracle holds prober's core against the kubelet's own prober.
//
// A [Scenario] is the life of a pod or two: what they are made of, how each attempt
// of each probe ends, and what happens when. [Oracle.Run] plays it, under a fake clock, on
// one side: the kubelet's manager, used as a library, or ours. What a side lets be
// seen is written to a [Record]: every attempt, every cached result, every answer of
// UpdatePodStatus, every event. Two records of one scenario must be equal.
//
// [Generate] makes scenarios from a seed, and [Shrink] makes a diverging one small.
// A scenario that once diverged is kept in testdata/scenarios.
//
// The module is built with -tags k8s136: the kubelet's packages compile with
// k8s.io/* v0.36 only.
package oracle
