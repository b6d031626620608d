// Package agent is the long-running program around the manager, which `prober run` runs. [New] reads
// and checks everything and starts nothing; [Agent.Run] runs until its context ends.
//
// Read podsource.go first: where pods come from. Then loops.go: five loops, none of which waits
// for another. They request work from each other with a coalescing trigger.
//
//   - followPods reloads the pods on request, and when a secret has changed.
//   - followPlugins reloads the plugins on request, and when prober.yaml or a plugin has changed.
//   - followRegistries queries registries for newer versions of plugins.
//   - maintainPlugins promotes shadows that are due, and unloads plugins that no probe uses.
//   - followSignals reloads everything at each SIGHUP.
//
// A failed reload of pods is retried after the plugins have changed, and a failed reload of plugins
// after the pods have changed (reload.go: progress). pods.go is the agent's part of a reload of
// pods. agent/plugins has the plugins.
//
// listen.go opens the listeners, server.go and api.go serve HTTP, list.go has the pages of lists,
// convert.go makes what the API shows of what the core has,
// and actions.go logs and counts actions. The package hostwatch finds trouble of the host,
// stream sends changes to readers, notify tells people, uplink tells a lost network
// from a target that is down, history keeps what was, and page is the status page. The
// packages api and client are for clients of the API; access,
// secrets, events and logs are parts of the agent.
package agent
