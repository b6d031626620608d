//go:build linux

package bed

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The addresses of the cluster, all in its network namespace.
const (
	NodeIP    = "10.88.76.1"
	ServiceIP = "10.96.0.1" // of the Service kubernetes
	server    = "https://" + NodeIP + ":6443"
	etcd      = "http://127.0.0.1:2379"
)

// ca is the file with the certificates of the API server and its authority.
const ca = Dir + "/pki/apiserver.crt"

// users is the file of static tokens.
const users = `admin-token,admin,admin,"system:masters"
node-token,system:node:` + NodeName + `,node,"system:nodes"
`

// beginControlPlane starts etcd and the API server.
func (c *Cluster) beginControlPlane() error {
	for user, token := range map[string]string{"admin": "admin-token", "node": "node-token"} {
		if err := writeKubeconfig(Kubeconfig(user), token); err != nil {
			return err
		}
	}
	err := errors.Join(
		os.MkdirAll(Dir+"/pki", 0o700),
		os.WriteFile(Dir+"/tokens.csv", []byte(users), 0o600),
		os.WriteFile(Dir+"/audit.yaml", []byte(auditPolicy), 0o600),
		writeKeys(Dir+"/pki/sa.key", Dir+"/pki/sa.pub"),
	)
	if err != nil {
		return err
	}
	c.Etcd = tool("etcd", "--data-dir="+Dir+"/etcd", "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls=http://127.0.0.1:2380", "--unsafe-no-fsync")
	c.APIServer = tool("kube-apiserver",
		"--etcd-servers="+etcd,
		"--cert-dir="+Dir+"/pki", "--secure-port=6443", "--bind-address="+NodeIP, "--advertise-address="+NodeIP,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--token-auth-file="+Dir+"/tokens.csv",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+Dir+"/pki/sa.pub", "--service-account-signing-key-file="+Dir+"/pki/sa.key",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--audit-policy-file="+Dir+"/audit.yaml", "--audit-log-path="+auditLog,
		"--allow-privileged", "--kubelet-preferred-address-types=InternalIP")
	c.APIServer.ready = func(ctx context.Context) error {
		if c.Client == nil {
			config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig("admin"))
			if err != nil {
				return err
			}
			config.QPS = -1 // no limit
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			c.Config, c.Client = config, client
		}
		return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
	return errors.Join(c.Etcd.begin(), c.APIServer.begin())
}

// beginControllers starts the controller manager and the scheduler.
func (c *Cluster) beginControllers() error {
	// Both run as admin. If each controller had its own service account, the controller manager would take
	// longer to start.
	flags := []string{"--kubeconfig=" + Kubeconfig("admin"), "--leader-elect=false", "--bind-address=127.0.0.1", "--kube-api-qps=500", "--kube-api-burst=500"}
	c.ControllerManager = tool("kube-controller-manager", append(flags,
		"--service-account-private-key-file="+Dir+"/pki/sa.key", "--root-ca-file="+ca)...)
	c.Scheduler = tool("kube-scheduler", flags...)
	return errors.Join(c.ControllerManager.begin(), c.Scheduler.begin())
}

// tool returns a program that tools/build has built.
func tool(name string, args ...string) *Daemon {
	return &Daemon{name: name, path: filepath.Join(os.Getenv(toolsVar), name), args: args}
}

// Kubeconfig returns the path of the kubeconfig of a user: admin or node.
func Kubeconfig(user string) string {
	return Dir + "/" + strings.ReplaceAll(user, "/", "-") + ".kubeconfig"
}

// writeKubeconfig writes a kubeconfig with a token.
func writeKubeconfig(file, token string) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"bed": {Server: server, CertificateAuthority: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"bed": {Cluster: "bed", AuthInfo: "user"}},
		CurrentContext: "bed",
	}, file)
}

// writeKeys writes the key pair that signs and verifies the tokens of service accounts.
func writeKeys(private, public string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600),
		os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o600),
	)
}
