// Package agent is the long-running program around the manager: what `prober run`
// does. [New] reads and checks everything and starts nothing; [Agent.Run] runs it
// until its context ends.
//
// Read podsource.go first: where pods come from. Then loops.go: five loops, none of which waits
// for another, and which ask each other for work by a coalescing trigger (trigger.go).
//
//   - followPods has the source of pods reload when somebody asks, or a secret has changed.
//   - followPlugins brings the plugins to what prober.yaml and the plugin folders have.
//   - followRegistries asks registries for newer versions of plugins.
//   - maintainPlugins promotes shadows that are due, and unloads plugins that nobody uses.
//   - followSignals reloads everything at each SIGHUP.
//
// An attempt to reload pods or plugins notes the version of the other one when it begins. Where it fails,
// and the other one has changed since, it is tried again (reload.go: progress). pods.go is
// the agent's side of a reload of pods.
//
// The plugins are those of agent/plugins: the agent calls it when files have changed or time
// has passed.
//
// The rest answers: listen.go takes addresses, server.go and api.go serve HTTP, actions.go
// reports who changed what, stream.go pushes changes, and host.go reports trouble of the host. The packages
// below are api and client for those who ask, access, secrets, events, logs and statelock.
package agent
