// Package prober is the kubelet's prober of one release. As it is here, it is that of the release that the
// module requires. For another one, ../release makes an overlay with that release's own files.
package prober

import "k8s.io/kubernetes/pkg/kubelet/prober"

// Release is the release.
const Release = "1.36"

// Manager is the kubelet's manager.
type Manager = prober.Manager

// NewManager makes one.
var NewManager = prober.NewManager
