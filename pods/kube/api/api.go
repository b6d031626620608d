// Package api is the client of one node for the API server of its cluster. It handles the pods of the node,
// their conditions, events, evictions, commands and leases. It links only the types of core/v1, not the whole
// clientset of client-go. Read [Client] first. rest.go makes the connection, and errors.go classifies errors.
package api

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/pods/kube/policy"
)

// Pod identifies a pod. A pod of the same name with another UID is another pod.
type Pod struct {
	Namespace, Name string
	UID             types.UID
}

// Config is what a [Client] needs.
type Config struct {
	Kubeconfig string // path; "": the service account of this pod
	Context    string // of the kubeconfig; "": its current one
	OfUser     bool   // without Kubeconfig: the files of kubectl, KUBECONFIG or ~/.kube/config
	Node       string // name of the node; "" for a client without one
	UserAgent  string
	Logger     *slog.Logger
}

// Client is a connection to the API server. It is safe for concurrent use. It does not limit the rate of requests:
// its users do. Every request except a watch ends after [RequestTimeout] or [ListTimeout].
type Client struct {
	node      string
	namespace string
	log       *slog.Logger
	config    *rest.Config
	core      *rest.RESTClient // JSON
	lists     *rest.RESTClient // core/v1 with protobuf
	leases    *rest.RESTClient
	policies  *rest.RESTClient
	owner     owner
}

// Pods lists and watches the pods of the node, for an informer.
func (c *Client) Pods() cache.ListerWatcher { return follow(c.lists, "pods", onNode(c.node)) }

// Namespaces lists and watches all namespaces, for an informer. It needs the verbs list and watch of namespaces.
func (c *Client) Namespaces() cache.ListerWatcher { return follow(c.lists, "namespaces", "") }

// NodeProbes lists and watches the [policy.NodeProbes] of the node, for an informer. It needs the verbs get, list and
// watch of nodeprobes in the group prober.dev.
func (c *Client) NodeProbes() cache.ListerWatcher {
	return follow(c.policies, policy.NodeProbesResource, fields.OneTermEqualSelector("metadata.name", c.node).String())
}

// follow lists and watches the objects of a resource that a field selector selects.
func follow(client *rest.RESTClient, resource, selector string) cache.ListerWatcher {
	request := func(o metav1.ListOptions) *rest.Request {
		o.FieldSelector = selector
		return client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, ListTimeout, errTimeout)
			defer cancel()
			return request(o).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return request(o).Watch(ctx)
		},
	}
}

// PodsOf lists the pods of a node.
func (c *Client) PodsOf(ctx context.Context, node string) ([]v1.Pod, error) {
	return c.listPods(ctx, "", metav1.ListOptions{FieldSelector: onNode(node)})
}

// onNode returns the field selector of the pods of a node.
func onNode(node string) string { return fields.OneTermEqualSelector("spec.nodeName", node).String() }
