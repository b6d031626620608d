//go:build linux

package bed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Tier is a part of a cluster.
type Tier int

// The tiers.
const (
	API  Tier = 1 << iota // etcd and the API server; no controllers
	CRI                   // containerd and the images; tests create pods through CRI
	node                  // the kubelet and the controllers
	Node = API | CRI | node
)

// Dir is the folder for the files of the cluster, such as kubeconfigs. Only root may read it.
const Dir = "/run/bed"

// Cluster is a cluster of one node. Programs are nil in tiers that do not have them.
type Cluster struct {
	Etcd, APIServer, ControllerManager, Scheduler, Containerd, Kubelet *Daemon

	Config *rest.Config         // an administrator's; nil without an API server
	Client kubernetes.Interface // an administrator's; nil without an API server
}

// shared is the cluster that all tests of a package share.
var shared struct {
	mu      sync.Mutex
	cluster *Cluster
	tier    Tier
	err     error
	names   int // counts generated names
}

// Up returns the cluster of this package's tests. It starts the parts of tier that do not run yet. If the
// test fails, its log has the last lines of the programs' logs.
func Up(t testing.TB, tier Tier) *Cluster {
	t.Helper()
	if os.Getenv(stageVar) != "tests" {
		t.Fatal("TestMain does not call bed.Main")
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		shared.cluster = &Cluster{}
	}
	if missing := tier &^ shared.tier; missing != 0 && shared.err == nil {
		shared.tier |= tier
		shared.err = shared.cluster.add(t.Context(), missing)
	}
	if shared.err != nil {
		t.Fatal("the cluster did not start: ", shared.err)
	}
	c := shared.cluster
	t.Cleanup(func() {
		if t.Failed() {
			for _, d := range c.daemons() {
				t.Logf("end of %s:\n%s", d.log(), d.tail())
			}
		}
	})
	return c
}

// add starts parts of the cluster.
func (c *Cluster) add(ctx context.Context, parts Tier) error {
	start := time.Now()
	progress := func(event string) { fmt.Printf("bed: %s after %.1f s\n", event, time.Since(start).Seconds()) }
	if parts&API != 0 {
		if err := c.beginControlPlane(); err != nil {
			return err
		}
	}
	if parts&CRI != 0 { // while the API server starts
		if err := c.startContainerd(ctx); err != nil {
			return err
		}
		progress("containerd has the images")
	}
	if parts&API != 0 {
		if err := c.APIServer.await(ctx); err != nil {
			return err
		}
		progress("the API server is ready")
	}
	if parts&node != 0 {
		if err := c.startNode(ctx); err != nil {
			return err
		}
		progress("the node is ready")
	}
	return nil
}

// daemons returns the programs that were started.
func (c *Cluster) daemons() (all []*Daemon) {
	for _, d := range []*Daemon{c.Etcd, c.APIServer, c.ControllerManager, c.Scheduler, c.Containerd, c.Kubelet} {
		if d != nil {
			all = append(all, d)
		}
	}
	return all
}

// Group is the control group below which all pods must be.
func Group() string { return "/" + filepath.Base(os.Getenv(dirVar)) }

// Await calls condition until it returns true. It fails the test after waitLimit; what describes the
// condition in the message.
func Await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", waitLimit, what)
		}
	}
}
