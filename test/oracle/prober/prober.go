// Package prober is the kubelet's prober of one release. As it is here, that is the release which the
// module requires. For another one, ../release makes an overlay with the files of that release.
package prober

import "k8s.io/kubernetes/pkg/kubelet/prober"

// Release is the release.
const Release = "1.36"

// Manager is the kubelet's manager.
type Manager = prober.Manager

// NewManager makes one.
var NewManager = prober.NewManager
