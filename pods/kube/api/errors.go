package api

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// ErrGone means that the pod was deleted, or that its name belongs to another pod.
	ErrGone = errors.New("the pod is gone")
	// ErrDenied means that RBAC or an admission policy refuses the request. A retry does not help.
	ErrDenied = errors.New("denied by the API server")
	// ErrBlocked means that a PodDisruptionBudget forbids an eviction at present.
	ErrBlocked = errors.New("blocked by a PodDisruptionBudget")

	errTimeout = errors.New("the API server did not answer in time")
)

// classify wraps the error of a request for one pod with its UID as precondition in [ErrGone] or [ErrDenied] if a
// retry would not help. A wrong UID is a conflict for an eviction, and an invalid field for a patch. Since requests
// have no resource version, there are no other conflicts. Admission may refuse with 422, and its webhooks with 400.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err) && hasCause(err, "metadata.uid"):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}

// hasCause reports whether a field is among the causes of an error.
func hasCause(err error, field string) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}
