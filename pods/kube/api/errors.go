package api

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// ErrGone means that the pod does not exist any more, or that its name belongs to another one.
	ErrGone = errors.New("the pod is gone")
	// ErrDenied means that RBAC or an admission policy refuses the request. A retry does not help.
	ErrDenied = errors.New("denied by the API server")
	// ErrBlocked means that a PodDisruptionBudget forbids an eviction at present.
	ErrBlocked = errors.New("blocked by a PodDisruptionBudget")

	errTimeout = errors.New("the API server did not answer in time")
)

// meaning wraps the error of a request about one pod, which has its UID as precondition, in what a
// retry would meet. Another UID is a conflict for an eviction, and an invalid field for a patch. A
// request that names no resource version has no other conflict. Admission may refuse with 422, and its
// webhooks with 400.
func meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err) && names(err, "metadata.uid"):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}

// names reports whether a field is a cause of an error.
func names(err error, field string) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}
