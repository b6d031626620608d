// Package prober is the kubelet's prober of one release. This file uses the release that the module requires.
// For another one, ../release makes an overlay with the files of that release.
package prober

import "k8s.io/kubernetes/pkg/kubelet/prober"

// Release is the release of the kubelet.
const Release = "1.36"

// Manager is the kubelet's manager.
type Manager = prober.Manager

// NewManager returns a Manager.
var NewManager = prober.NewManager
