// Package bed runs Kubernetes for tests, on one machine, without a registry, a virtual machine or an
// init system: etcd, the API server, the controller manager, the scheduler, containerd and the
// kubelet. It needs root and Linux.
//
// Read main.go first: [Main] runs the tests of a package in new namespaces, where /run, /var/lib and
// /var/log are empty. So the programs use their usual paths, addresses and ports, and everything
// disappears when the process ends, even if it is killed. Only control groups are not in a namespace: they
// are below one group for each run (groups.go).
//
// Then read cluster.go: [Up] starts the parts of a cluster that a test needs, once for all tests of a
// package. daemon.go is one program, which tests may stop and start; controlplane.go and node.go run each
// of the programs. faults.go has reboots and dropped packets, audit.go the writes to the API server,
// etcd.go the stored objects, images.go the images of the pods, pods.go helpers for pods, access.go tokens
// and kubeconfigs, and agent.go prober itself.
package bed
