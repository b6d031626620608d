package api

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PatchConditions sets conditions of a pod, and leaves other conditions unchanged: a strategic merge patch of
// pods/status with the UID as precondition. A condition without LastTransitionTime keeps its time at the
// server. The error is [ErrGone] or [ErrDenied] if a retry would not help.
func (c *Client) PatchConditions(ctx context.Context, pod Pod, conditions []v1.PodCondition) error {
	body, err := json.Marshal(newPatch(pod, conditions))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	return classify(c.core.Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("status").
		Param("fieldManager", fieldManager).Body(body).MaxRetries(0).Do(ctx).Error())
}

// patch is the body of a patch of conditions. [v1.PodCondition] would encode a zero time as null, which
// deletes the server's time.
type patch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type               v1.PodConditionType `json:"type"`
	Status             v1.ConditionStatus  `json:"status"`
	Reason             string              `json:"reason"`
	Message            string              `json:"message"`
	ObservedGeneration int64               `json:"observedGeneration,omitzero"` // 0: the server keeps its own
	LastTransitionTime metav1.Time         `json:"lastTransitionTime,omitzero"`
}

func newPatch(pod Pod, conditions []v1.PodCondition) (p patch) {
	p.Metadata.UID = pod.UID
	for _, c := range conditions {
		p.Status.Conditions = append(p.Status.Conditions, condition{c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration, c.LastTransitionTime})
	}
	return p
}

// eviction is policy/v1's Eviction.
type eviction struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta    `json:"metadata"`
	DeleteOptions   metav1.DeleteOptions `json:"deleteOptions"`
}

// Evict requests the eviction of a pod. With nil graceSeconds, the grace period of the pod applies. The error may be
// [ErrGone], [ErrDenied] or [ErrBlocked].
func (c *Client) Evict(ctx context.Context, pod Pod, graceSeconds *int64) error {
	body, err := json.Marshal(eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		Metadata:      metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: metav1.DeleteOptions{GracePeriodSeconds: graceSeconds, Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	err = c.core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(body).MaxRetries(0).Do(ctx).Error()
	if apierrors.HasStatusCause(err, "DisruptionBudget") {
		return fmt.Errorf("%w: %w", ErrBlocked, err)
	}
	return classify(err)
}
