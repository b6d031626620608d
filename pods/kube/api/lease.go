package api

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// leaseSelector selects the leases of prober.
const leaseSelector = "app.kubernetes.io/name=prober"

// Lease has the fields of coordination/v1's Lease that prober uses.
type Lease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              LeaseSpec `json:"spec"`
}

// LeaseSpec has the holder, the duration and the last renewal of a lease.
type LeaseSpec struct {
	HolderIdentity       string           `json:"holderIdentity"` // the name of the node; "" if released
	LeaseDurationSeconds int32            `json:"leaseDurationSeconds"`
	RenewTime            metav1.MicroTime `json:"renewTime"`
}

// LeaseList is a list of leases.
type LeaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Lease `json:"items"`
}

var _, _ runtime.Object = (*Lease)(nil), (*LeaseList)(nil)

// DeepCopyObject implements [runtime.Object].
func (l *Lease) DeepCopyObject() runtime.Object {
	c := *l
	c.ObjectMeta = *l.ObjectMeta.DeepCopy()
	return &c
}

// DeepCopyObject implements [runtime.Object].
func (l *LeaseList) DeepCopyObject() runtime.Object {
	c := *l
	c.ListMeta = *l.ListMeta.DeepCopy()
	c.Items = make([]Lease, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Lease)
	}
	return &c
}

// LeaseName returns the name of the lease of a node.
func LeaseName(node string) string { return "prober-" + node }

// RenewLease creates or renews the lease by which the agent of the node shows that it is alive. The lease is owned
// by the node, and deleted with it.
func (c *Client) RenewLease(ctx context.Context, namespace string, duration time.Duration) error {
	err := c.patchLease(ctx, c.leases.Patch(types.MergePatchType).Name(LeaseName(c.node)), namespace, duration)
	if apierrors.IsNotFound(err) {
		c.owner.forget() // the lease may have been deleted with its node
		err = c.patchLease(ctx, c.leases.Post(), namespace, duration)
	}
	return err
}

// patchLease sends the lease of the node as the body of r.
func (c *Client) patchLease(ctx context.Context, r *rest.Request, namespace string, duration time.Duration) error {
	metadata := map[string]any{"name": LeaseName(c.node), "labels": map[string]string{"app.kubernetes.io/name": "prober"}}
	if owners := c.owners(ctx); owners != nil {
		metadata["ownerReferences"] = owners
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": coordination.String(), "kind": "Lease", "metadata": metadata,
		"spec": LeaseSpec{
			HolderIdentity: c.node, LeaseDurationSeconds: int32((duration + time.Second - 1) / time.Second), RenewTime: metav1.NowMicro(),
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	return r.Namespace(namespace).Resource("leases").Param("fieldManager", fieldManager).Body(body).Do(ctx).Error()
}

// DropLease deletes the lease of the node, if there is one.
func (c *Client) DropLease(ctx context.Context, namespace string) error {
	l, err := c.Lease(ctx, namespace, LeaseName(c.node))
	if err == nil {
		err = c.DeleteLease(ctx, namespace, l)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// CreateLease creates a lease that is owned by the node, and deleted with it.
func (c *Client) CreateLease(ctx context.Context, namespace string, l *Lease) error {
	return c.writeLease(ctx, c.leases.Post(), namespace, l)
}

// UpdateLease replaces a lease whose resource version is l's. The lease is owned by the node, and deleted with it.
func (c *Client) UpdateLease(ctx context.Context, namespace string, l *Lease) error {
	return c.writeLease(ctx, c.leases.Put().Name(l.Name), namespace, l)
}

func (c *Client) writeLease(ctx context.Context, r *rest.Request, namespace string, l *Lease) error {
	written := *l
	written.TypeMeta = metav1.TypeMeta{APIVersion: coordination.String(), Kind: "Lease"}
	written.OwnerReferences = c.owners(ctx)
	body, err := json.Marshal(&written)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	return r.Namespace(namespace).Resource("leases").Param("fieldManager", fieldManager).Body(body).MaxRetries(0).Do(ctx).Error()
}

// DeleteLease deletes a lease, unless it has changed since l was read.
func (c *Client) DeleteLease(ctx context.Context, namespace string, l *Lease) error {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	body, err := unchanged(&l.ObjectMeta)
	if err != nil {
		return err
	}
	return c.leases.Delete().Namespace(namespace).Resource("leases").Name(l.Name).Body(body).MaxRetries(0).Do(ctx).Error()
}

// Leases lists the leases of prober.
func (c *Client) Leases(ctx context.Context, namespace string) (*LeaseList, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ListTimeout, errTimeout)
	defer cancel()
	var list LeaseList
	err := c.leases.Get().Namespace(namespace).Resource("leases").
		VersionedParams(&metav1.ListOptions{LabelSelector: leaseSelector}, metav1.ParameterCodec).Do(ctx).Into(&list)
	return &list, err
}

// WatchLeases watches the leases of prober, starting after a resource version. The objects of its events have the
// type *[Lease].
func (c *Client) WatchLeases(ctx context.Context, namespace, resourceVersion string) (watch.Interface, error) {
	o := metav1.ListOptions{LabelSelector: leaseSelector, ResourceVersion: resourceVersion, AllowWatchBookmarks: true, Watch: true}
	return c.leases.Get().Namespace(namespace).Resource("leases").VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
}

// Lease reads a lease.
func (c *Client) Lease(ctx context.Context, namespace, name string) (*Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, errTimeout)
	defer cancel()
	var lease Lease
	err := c.leases.Get().Namespace(namespace).Resource("leases").Name(name).Do(ctx).Into(&lease)
	return &lease, err
}
