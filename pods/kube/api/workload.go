package api

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// PodsLike lists the pods of a namespace that have all given labels. The result comes from the cache of the API
// server, and may be slightly old.
func (c *Client) PodsLike(ctx context.Context, namespace string, all map[string]string) ([]v1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ListTimeout, errTimeout)
	defer cancel()
	var list v1.PodList
	o := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(all).String(), ResourceVersion: "0"}
	err := c.lists.Get().Namespace(namespace).Resource("pods").VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(&list)
	return list.Items, err
}
