//go:build k8s136

package builtin

import v1 "k8s.io/api/core/v1"

func wantsH2C(*v1.HTTPGetAction) (bool, error) { return false, nil }

func wantsTLS(*v1.GRPCAction) (bool, error) { return false, nil }
