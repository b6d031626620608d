// Package agent is the long-running program around the manager, which `prober run` runs. [New] reads and
// checks all configuration and starts nothing; [Agent.Run] runs until its context ends.
//
// Read the type Source in pods/source.go first: the source of pods. Then loops.go: five loops. They request
// work from each other with coalescing triggers, and only followSignals waits for it.
//
//   - followPods reloads the pods on request, and when a secret has changed.
//   - followPlugins reloads the plugins on request, and when prober.yaml or a plugin has changed.
//   - followRegistries queries registries for newer versions of plugins.
//   - maintainPlugins promotes shadows that are due, and unloads plugins that no probe uses.
//   - followSignals reloads everything at each SIGHUP.
//
// A failed reload of pods is retried after the plugins have changed, and a failed reload of plugins after the
// pods have changed (reload.go: progress). pods.go has the agent's part of a reload of pods, and
// agent/plugins the plugins.
//
// listen.go opens the listeners. server.go and api.go serve HTTP, list.go pages lists, convert.go converts
// types of the core to types of the API, and actions.go logs and counts actions. Package hostwatch detects
// trouble of the host, stream sends changes to clients, notify sends notifications, depend distinguishes a
// target that is down from one whose dependency or network is down, maintenance decides which probes are in a
// maintenance window, slo has error budgets, incidents groups failing probes (incidents.go has its probes),
// history stores past states, and page is the status page. Packages api and client are for clients of the API; access, secrets, events and logs are
// parts of the agent.
package agent
