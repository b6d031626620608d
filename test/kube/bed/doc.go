// Package bed runs Kubernetes for tests, on one machine, without a registry, a virtual machine or an
// init system: etcd, the API server, the controller manager, the scheduler, containerd and the
// kubelet. It needs root and Linux.
//
// Read main.go first: [Main] runs the tests of a package in namespaces of their own, where /run,
// /var/lib and /var/log are empty. So the programs keep their usual paths, addresses and ports, and all of it
// is gone when the process ends, however it ends. Only control groups are outside of namespaces: they are
// below a group of its own (groups.go).
//
// Then cluster.go: [Up] starts what a test needs, once for all tests of a package. daemon.go is one
// program, which tests may stop and start; controlplane.go and node.go are how each of them is run.
// faults.go has reboots and dropped packets, audit.go what prober has written, etcd.go what is stored, images.go the images of the pods, pods.go what most tests
// need of pods, access.go tokens and kubeconfigs, and agent.go prober itself.
package bed
