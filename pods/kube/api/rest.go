package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/daeace23/prober/pods/kube/policy"
)

// Timeouts of one request. A watch has none: HTTP/2 pings its connection.
const (
	RequestTimeout = 15 * time.Second
	ListTimeout    = time.Minute
)

// fieldManager is the field manager of all writes.
const fieldManager = "prober"

// namespaceFile has the namespace of this pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

var (
	coordination = schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}
	scheme       = sync.OnceValue(newScheme)
)

// newScheme returns a scheme with only the used types. Other API groups would add megabytes to programs.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1.AddToScheme(s); err != nil {
		panic(err) // unreachable: the scheme is empty
	}
	s.AddKnownTypes(coordination, &Lease{}, &LeaseList{})
	metav1.AddToGroupVersion(s, coordination)
	policy.AddToScheme(s)
	return s
}

// New returns a client. It reads configuration files, but does not connect.
func New(cfg Config) (*Client, error) {
	config, namespace, err := load(cfg)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = cmp.Or(cfg.UserAgent, "prober")
	config.WarningHandler = rest.NoWarnings{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme()).WithoutConversion()
	c := &Client{node: cfg.Node, namespace: namespace, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), config: config}
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connection to the API server: %w", err)
	}
	for _, spec := range []struct {
		to       **rest.RESTClient
		group    schema.GroupVersion
		path     string
		accepted string
	}{
		{&c.core, v1.SchemeGroupVersion, "/api", runtime.ContentTypeJSON},
		{&c.lists, v1.SchemeGroupVersion, "/api", runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON},
		{&c.leases, coordination, "/apis", runtime.ContentTypeJSON},
		{&c.policies, policy.GroupVersion, "/apis", runtime.ContentTypeJSON},
	} {
		one := rest.CopyConfig(config)
		one.GroupVersion, one.APIPath = &spec.group, spec.path
		one.AcceptContentTypes, one.ContentType = spec.accepted, runtime.ContentTypeJSON
		if *spec.to, err = rest.RESTClientForConfigAndClient(one, shared); err != nil {
			return nil, fmt.Errorf("address of the API server: %w", err)
		}
	}
	return c, nil
}

// Namespace returns the namespace of this pod, or of the kubeconfig's context.
func (c *Client) Namespace() string { return c.namespace }

// load returns the configuration of the connection, and the namespace for [Client.Namespace]. client-go reads a
// rotated service account token again.
func load(cfg Config) (*rest.Config, string, error) {
	if cfg.Kubeconfig == "" && !cfg.OfUser {
		if cfg.Context != "" {
			return nil, "", fmt.Errorf("the context %q needs a kubeconfig", cfg.Context)
		}
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", errors.New("this process does not run in a pod of a cluster, and no kubeconfig is given")
		}
		if err != nil {
			return nil, "", fmt.Errorf("service account of this pod: %w", err)
		}
		namespace, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, "", fmt.Errorf("service account of this pod: %w", err)
		}
		return config, strings.TrimSpace(string(namespace)), nil
	}
	rules, name := &clientcmd.ClientConfigLoadingRules{ExplicitPath: cfg.Kubeconfig}, "kubeconfig "+cfg.Kubeconfig
	if cfg.Kubeconfig == "" {
		rules = clientcmd.NewDefaultClientConfigLoadingRules()
		name = "kubeconfig " + strings.Join(rules.GetLoadingPrecedence(), ", ")
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: cfg.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return config, namespace, nil
}
