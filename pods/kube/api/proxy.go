package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// PodsWith lists the pods of a namespace with labels, in the form of a label selector. It needs the verb list of pods
// in the namespace.
func (c *Client) PodsWith(ctx context.Context, namespace, labels string) ([]v1.Pod, error) {
	return c.listPods(ctx, namespace, metav1.ListOptions{LabelSelector: labels})
}

// PodsNamed lists the pods with a name in a namespace, or in all namespaces if namespace is "". It needs the verb list
// of pods there.
func (c *Client) PodsNamed(ctx context.Context, namespace, name string) ([]v1.Pod, error) {
	return c.listPods(ctx, namespace, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
}

func (c *Client) listPods(ctx context.Context, namespace string, o metav1.ListOptions) ([]v1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ListTimeout, errTimeout)
	defer cancel()
	var list v1.PodList
	err := c.lists.Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods").VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(&list)
	if err != nil {
		return nil, fmt.Errorf("list of pods: %w", deniedOnly(err))
	}
	return list.Items, nil
}

// Proxy returns the URL of a port of a pod at the API server, and the transport to it, which has the credentials of the
// API server. Requests need the verb get of pods/proxy in the namespace, and those with POST the verb create.
func (c *Client) Proxy(namespace, pod string, port int) (string, http.RoundTripper) {
	url := c.core.Get().Namespace(namespace).Resource("pods").Name(pod + ":" + strconv.Itoa(port)).SubResource("proxy").URL()
	return url.String(), c.core.Client.Transport
}

// deniedOnly wraps the error of a list in [ErrDenied] if RBAC refuses it.
func deniedOnly(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}
