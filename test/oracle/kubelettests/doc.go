// Package kubelettests has the cases of the kubelet's own unit tests of its prober: their
// inputs and the answers that they expect. Each case runs on the kubelet's packages and on
// ours, through the public API of both, and both must give the expected answer. The names
// carry the numbers of docs/kubelet-parity.md.
package kubelettests
