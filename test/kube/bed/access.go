//go:build linux

package bed

import (
	"bytes"
	"os/exec"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ServiceAccount returns a client config with a token of a service account. It creates the account if there
// is none. If node is not nil, the token is bound to it, so admission policies see the node's name.
func (c *Cluster) ServiceAccount(t testing.TB, namespace, name string, node *corev1.Node) *rest.Config {
	t.Helper()
	accounts := c.Client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if node != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	}
	token, err := accounts.CreateToken(t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token.Status.Token
	return config
}

// Kubeconfig writes a kubeconfig with the token of config, and returns its path.
func (c *Cluster) Kubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	file := t.TempDir() + "/kubeconfig"
	if err := writeKubeconfig(file, config.BearerToken); err != nil {
		t.Fatal(err)
	}
	return file
}

// Allow gives a service account the rules in all namespaces, until the end of the test. The API server
// applies them a little later.
func (c *Cluster) Allow(t testing.TB, namespace, account string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	rbac := c.Client.RbacV1()
	meta := metav1.ObjectMeta{GenerateName: "bed-"}
	role, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		for _, err := range []error{
			rbac.ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{}),
			rbac.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// FakeNode creates a node without a kubelet, and deletes it at the end of the test.
func (c *Cluster) FakeNode(t testing.TB, name string) *corev1.Node {
	t.Helper()
	nodes := c.Client.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := nodes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return node
}

// WhoIs returns the user that the API server sees for config.
func (c *Cluster) WhoIs(t testing.TB, config *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo
}

// Kubectl runs kubectl as an administrator, and returns its standard output.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool("kubectl").path, append([]string{"--kubeconfig=" + Kubeconfig("admin"), "--cache-dir=" + Dir + "/kubectl"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, errs.String())
	}
	return string(out)
}
