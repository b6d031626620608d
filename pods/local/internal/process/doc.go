// Package process runs a container as a group of local processes under a shim.
//
// A shim is the same program as the agent, started again with a hidden argument. It is the parent
// of one container: it starts the first process, adopts orphans, and kills all of them when the
// container is to end. A pipe connects it to the agent. When the pipe is closed, because the agent
// has died, the shim ends the container.
//
// Read shim.go first: it has the protocol between agent and shim. process_linux.go is the side of
// the agent, and shim_linux.go that of the shim. Other systems have no shims: see shim_other.go.
package process
