// Package kubelettests has the cases of the kubelet's own unit tests of its prober, with their inputs and
// expected results. Each case runs on the kubelet's packages and on ours, through the public API of both,
// and both must have the expected result. The names have the numbers of docs/kubelet-parity.md.
package kubelettests
