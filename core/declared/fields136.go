//go:build k8s136

package declared

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// k8s.io/api v0.36 does not have these fields.

func validateProtocol(*v1.HTTPGetAction, *field.Path) field.ErrorList { return nil }

func validateMode(*v1.GRPCAction, *field.Path) field.ErrorList { return nil }
