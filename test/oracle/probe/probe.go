// Package probe is pkg/probe of one release of the kubelet, and its subfolders are the kubelet's handlers.
// These files use the release that the module requires. For another one, ../release makes an overlay with the
// files of that release. The names are as in the newest release.
package probe

import "k8s.io/kubernetes/pkg/probe"

// Release is the release of the kubelet.
const Release = "1.36"

// Result is the result of an attempt.
type Result = probe.Result

// Unknown is the result of an attempt that could not be made.
const Unknown = probe.Unknown

// ResolveContainerPort returns the number of a port of a container.
var ResolveContainerPort = probe.ResolveContainerPort
