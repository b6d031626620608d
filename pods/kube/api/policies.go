package api

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/pods/kube/policy"
)

// notEnded is the field selector of pods that have not ended.
const notEnded = "status.phase!=Succeeded,status.phase!=Failed"

// AllPods lists and watches the pods of all nodes that have not ended, for a reflector. It needs the verbs list and
// watch of pods.
func (c *Client) AllPods() cache.ListerWatcher { return follow(c.lists, "pods", notEnded) }

// Policies lists and watches the policies of all namespaces, for a reflector. It needs the verbs list and watch of
// probepolicies in the group prober.dev.
func (c *Client) Policies() cache.ListerWatcher {
	return follow(c.policies, policy.PoliciesResource, "")
}

// AllNodeProbes lists and watches the [policy.NodeProbes] of all nodes, for a reflector. It needs the verbs list and
// watch of nodeprobes in the group prober.dev.
func (c *Client) AllNodeProbes() cache.ListerWatcher {
	return follow(c.policies, policy.NodeProbesResource, "")
}

// CreateNodeProbes creates the policies of a node. It returns the resource version.
func (c *Client) CreateNodeProbes(ctx context.Context, n *policy.NodeProbes) (resourceVersion string, err error) {
	return c.writeNodeProbes(ctx, c.policies.Post(), n)
}

// UpdateNodeProbes replaces the policies of a node whose resource version is n's. It returns the next one.
func (c *Client) UpdateNodeProbes(ctx context.Context, n *policy.NodeProbes) (resourceVersion string, err error) {
	return c.writeNodeProbes(ctx, c.policies.Put().Name(n.Name), n)
}

func (c *Client) writeNodeProbes(ctx context.Context, r *rest.Request, n *policy.NodeProbes) (string, error) {
	written := *n
	written.TypeMeta = metav1.TypeMeta{APIVersion: policy.GroupVersion.String(), Kind: "NodeProbes"}
	return send(ctx, r.Resource(policy.NodeProbesResource), &written)
}

// DeleteNodeProbes deletes the policies of a node, unless they have changed since n was read.
func (c *Client) DeleteNodeProbes(ctx context.Context, n *policy.NodeProbes) error {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	body, err := unchanged(&n.ObjectMeta)
	if err != nil {
		return err
	}
	return c.policies.Delete().Resource(policy.NodeProbesResource).Name(n.Name).Body(body).MaxRetries(0).Do(ctx).Error()
}

// PatchPolicyStatus replaces the status of a policy, with its UID as precondition. It returns the resource version.
// The error is [ErrGone] or [ErrDenied] if a retry would not help.
func (c *Client) PatchPolicyStatus(ctx context.Context, p *policy.ProbePolicy) (resourceVersion string, err error) {
	r := c.policies.Patch(types.MergePatchType).Namespace(p.Namespace).Resource(policy.PoliciesResource).Name(p.Name).SubResource("status")
	resourceVersion, err = send(ctx, r, map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": p.Status})
	return resourceVersion, classify(err)
}

// send writes an object once, and returns its resource version.
func send(ctx context.Context, r *rest.Request, object any) (resourceVersion string, err error) {
	body, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	answer, err := r.Param("fieldManager", fieldManager).Body(body).MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var written metav1.PartialObjectMetadata
	err = json.Unmarshal(answer, &written)
	return written.ResourceVersion, err
}

// unchanged returns the body of a request that deletes an object only if it has not changed since it was read.
func unchanged(o *metav1.ObjectMeta) ([]byte, error) {
	return json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion},
	})
}
