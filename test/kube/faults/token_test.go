//go:build linux

package faults

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/daeace23/prober/test/kube/bed"
)

// expireToken invalidates the token of the agent, and then writes another one to its file.
func (f *fleet) expireToken() {
	ctx, core := f.t.Context(), f.Client.CoreV1()
	file := filepath.Join(bed.Dir, "agent-token") // the following tests use it too
	writeBound := func(name string) {
		secret, err := core.Secrets(f.ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		writeToken(f.t, f.Cluster, f.ns, secret, file)
	}
	writeBound("first")
	useTokenFile(f.t, f.agent.Kubeconfig, file)
	f.agent.Stop(f.t)
	began := time.Now()
	f.agent.Start(f.t)
	f.awaitTicks(began, healthy...)
	mark := time.Now()
	if err := core.Secrets(f.ns).Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
	pause(12 * time.Second) // the API server caches valid tokens for 10 s
	f.setApp("turns", "sick")
	pause(5 * time.Second)
	if got := conditionOf(f.pod("turns"), gate); got.Status != yes {
		f.t.Errorf("the condition was written with an invalid token: %+v", got)
	}
	writeBound("second")
	renewed := time.Now()
	f.await("turns", gate, no)
	f.t.Logf("a condition was written %.1f s after a valid token was in the file", time.Since(renewed).Seconds())
	f.setApp("turns", "well")
	f.await("turns", gate, yes)
	f.awaitReady("turns")
	f.wantUnchanged(mark, append(slices.Clone(healthy), "failing", "recovers", "breaks")...)
}

// writeToken writes a token of the agent that is valid while a secret exists.
func writeToken(t *testing.T, c *bed.Cluster, namespace string, secret *corev1.Secret, file string) {
	t.Helper()
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "prober", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(token.Status.Token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// useTokenFile makes a kubeconfig read the token from a file, as pods do.
func useTokenFile(t *testing.T, kubeconfig, file string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token, user.TokenFile = "", file
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
}
