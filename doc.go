// Package prober is the map of the module. Its one piece of code hands out the source
// of the SDK. docs/start/architecture.md has pictures of the same.
//
// prober runs the kubelet's liveness, readiness and startup probes in any Go program,
// and lets WebAssembly plugins carry them out.
//
// # Packages
//
// Read them in this order:
//
//   - probe: the vocabulary. What a probe is, what a handler is asked and answers.
//   - core/worker: the types that users of the core share with the workers of probes.
//     core/internal/engine: one worker. worker.go is its life, tick.go one scheduled run from top
//     to bottom, fold.go the rule of the thresholds; schedule.go runs the workers that are due.
//     core/internal/seam: lets packages of the core use private parts of each other's public types.
//   - core/results: the last decided result of every container, and the updates of it.
//   - core/states: the four states of a probe and their causes, for people: what the page, metrics,
//     notifications, the history and conditions of pods are made of.
//   - core/group: probes by a key of the caller's: the entry point for programs that have
//     nothing to do with Kubernetes.
//   - core/endpoint: several checks of one thing, combined: probes of a group, results that are pushed, outcomes of
//     real traffic; and endpoints that depend on others.
//   - core/declared: the probes that a pod declares, as data: an annotation is parsed once. It has the table of
//     the handlers that are built in.
//   - core/manager: AddPod, RemovePod, UpdatePodStatus and the rest of the kubelet's
//     probe manager: the entry point for programs that have pods.
//   - handlers: finds a handler by name. handlers/builtin: exec, http, tcp and grpc,
//     each a package below it too.
//     handlers/wasm: handlers that are sandboxed WebAssembly modules. handlers/process:
//     handlers that are programs. handlers/shipped: the plugins that are part of this program.
//     handlers/replace: a handler that is replaced while probes
//     use it. handlers/shadow: compares a second handler with the one that decides.
//     handlers/quarantine: pauses a handler that is broken. handlers/limit: bounds the attempts
//     of a handler in flight. handlers/netns: makes their sockets in the network namespaces of pods.
//   - plugin: a plugin's manifest, capabilities, grants and limits. plugin/admit: which
//     plugins may be loaded. plugin/live: which of them are. plugin/trust, plugin/oci:
//     signatures, locks and registries. plugin/compat: which version a change needs. plugin/index: lists of
//     plugins. plugin/plugintest: runs the test cases of a plugin.
//   - sdk: what the author of a plugin imports, and sdk/process to serve it as a program.
//     internal/abi: the contract between host and guest. internal/pluginpb: the same with
//     a program.
//   - pods: what an agent and a source of pods offer each other. pods/internal/hook: the hooks of
//     containers. internal/httpget: the requests of hooks and of http probes. pods/local: the source that
//     runs manifests as local processes. pods/targets: pods of the targets in prober.yaml. pods/kube:
//     the source of a Kubernetes node. pods/kube/api: the API server. pods/kube/cri: the container
//     runtime. pods/kube/conditions: the rule of the conditions and their writer. pods/kube/liveness:
//     restarts and evictions after failures, and when they are withheld. pods/kube/loss: agents that
//     are lost. pods/kube/policy: probes that a cluster declares by labels. pods/kube/controller: gives
//     them to the nodes.
//   - metrics: the Prometheus metrics of all ticks, and the handler that streams them.
//     metrics/otelobserver, a module of its own: the same for OpenTelemetry.
//   - agent: the long-running program. agent/plugins: its plugins, connected to files and
//     metrics. agent/stream: changes of probes, pods and events, encoded once for all readers.
//     agent/pauses: pauses and forced states, which end by themselves. agent/maintenance: maintenance
//     windows and their probes. agent/slo: error budgets. agent/notify: tells people of states, by
//     webhooks, commands and mail; agent/notify/format has their messages. agent/history: states and
//     minutes on disk, for reports. agent/page: the status page.
//     agent/incidents: groups failing probes by what they share.
//     agent/certs: certificates that servers show to probes; internal/handshake brings them there.
//     agent/depend: tells a target that is down from one whose dependency or network is down.
//     agent/otlp: metrics and traces for a collector of OpenTelemetry.
//     agent/client, agent/api: speak to a running agent.
//     agent/sidecar: answers the kubelet's own probes from a container of their pod.
//   - internal/outbound: the requests that prober makes by itself, with their files of certificates and
//     tokens. internal/pace: waits between attempts, and token buckets. internal/clip: texts that are
//     too long. internal/whatif, internal/advise: what other thresholds would have made of the history.
//   - config, internal/cli, cmd/prober: prober.yaml and the command line. cmd/prober-probe: one probe by a
//     small program. internal/cli/systemd: what
//     systemd is told. internal/publicpage: the files of a public status page.
//   - internal/release: archives, Debian packages and the container image.
//     internal/archtest, internal/docstest: tests of the structure of the module, and of its documents.
//   - bench, a module of its own: measures prober beside the kubelet's code.
//
// Imports point down only: the core imports no handler, and handlers import nothing of
// the core. internal/archtest checks the imports of every package.
//
// # One tick
//
//  1. core/internal/engine.shard.run takes a worker off the heap when it is due, and makes sure that the
//     next one is run in time; core/internal/engine.Worker.Trigger makes one due at once.
//  2. core/internal/engine.Worker.fire runs the tick: core/internal/engine.Worker.tick asks the task for its state.
//  3. core/internal/engine.Worker.enter decides whether to probe now: on hold, initial delay, not started. A
//     container that is new, does not run or is being deleted gets a result here, without an attempt.
//  4. core/internal/engine.Worker.attempts makes up to three attempts, and retries only errors. Where a
//     plugin or a limit has no slot for it, the tick is skipped.
//  5. core/internal/engine.Worker.makeAttempt makes one attempt; a fault of the host is an error.
//     core/internal/engine.Worker.beginLocked, called by enter and retry, has set its deadline.
//  6. A built-in handler, handlers/wasm.bound.Probe or a process makes the attempt. Before a
//     handler with a limit does, handlers/limit.Limit.acquire waits for a slot with the timeout suspended.
//  7. core/internal/engine.Worker.record applies the outcome, unless the probe was changed meanwhile.
//     Steps 8 and 9 are in it. An error decides nothing, unless errorPolicy is failure; a fault of the host
//     decides nothing then either.
//  8. core/internal/engine.fold is the rule of the thresholds: the next run, and whether it decides.
//  9. core/results.claims.Set, reached through core/internal/seam, stores the decided result and queues an
//     update. It never blocks.
//  10. core/internal/engine.Worker.conclude, which has called record, sends the event by
//     core/internal/engine.Worker.emit. Then observers get the tick, with what happened
//     inside its attempts if there is a history: core/manager.Manager.Explain returns that.
//
// # One dial of a WebAssembly plugin
//
// Plugins that are processes are not sandboxed, and dial what they like.
//
//  1. A host function asks where it may dial: for a connection in
//     handlers/wasm/internal/guest.Call.dial, for a request in
//     handlers/wasm/internal/guest.exchange.endpoint, for a name server in
//     handlers/wasm/internal/guest.Call.dnsServers, for an echo request in
//     handlers/wasm/internal/guest.Call.echoTo.
//  2. handlers/wasm/internal/egress.Policy.Resolve reads a URL, and calls
//     handlers/wasm/internal/egress.Policy.Unix for the path of a socket, or
//     handlers/wasm/internal/egress.Policy.Dial for host:port. For a host alone, of an echo request, it is
//     handlers/wasm/internal/egress.Policy.Echo.
//  3. handlers/wasm/internal/egress.dial.decideName decides whether a name may be looked up.
//     handlers/wasm/internal/egress.dial.literal decides whether an address is the target's.
//  4. handlers/wasm/internal/egress.dial.checkAddr decides on every address, by the next four:
//  5. handlers/wasm/internal/egress.dial.decideGrant: the target, or requested and granted; no
//     denial, and no listener of prober itself.
//  6. handlers/wasm/internal/egress.dial.checkAliases: no address of a denied name.
//  7. handlers/wasm/internal/egress.dial.decideGuard: an address of the target only if the source of pods
//     allows it, such as pods/kube.Source.CheckTarget.
//  8. handlers/wasm/internal/egress.dial.decideClass: link-local, metadata and loopback addresses
//     only if a grant spells them out, and loopback also for the target and declared ports.
//  9. handlers/wasm/internal/guest.Call.dialAny connects to the addresses that are left.
//
// # One replacement of a plugin
//
//  1. agent.Agent.followPlugins polls the files every 500 ms. A change has settled when two
//     polls agree, or after 2 s; then it calls agent.Agent.reloadPlugins.
//  2. plugin/admit.Scanner.ScanFor, by agent/plugins.Set.Reload, reads prober.yaml, locks and the
//     plugins in use, and lists the others, into a Snapshot.
//  3. plugin/live.Manager.Apply applies the snapshot to each plugin, four at a time.
//  4. plugin/live.decide returns the action: keep, offer (the first probe will load it), confirm,
//     load, withdraw, forget or await (plugin/live.decideUnused and plugin/live.decideShadow also have unload);
//     or a report of why the snapshot changes nothing.
//  5. plugin/live.Manager.loadGeneration loads the new version beside the old one.
//  6. handlers/replace.Handler.Replace takes it, while probes use the old version:
//     handlers/replace.Handler.prepareAndInstall repeats the next step for probes that are added.
//  7. handlers/replace.prepareEach prepares every live probe with the new version.
//  8. handlers/replace.tryOne tries it; an error up to here leaves the old version running.
//  9. handlers/replace.Handler.changeOverLocked changes all probes over at once.
//  10. handlers/replace.Handler.endLocked closes the old version after its last attempt, or the
//     longest timeout of all attempts so far (1 s to 24 h).
//
// # Lives of values
//
// Each value is read once, and passed on. Each line names a function and its use of the value.
//
// A timeout, of an annotation or of a v1.Probe:
//
//   - core/declared.annotationProbe.spec or core/declared.specOf makes it part of a probe.Spec.
//   - core/internal/engine.New keeps it, and core/internal/engine.Worker.beginLocked sets the deadline of each
//     attempt by it.
//
// A target, as a host or a socket:
//
//   - core/declared.pluginTarget.resolve reads the target of a plugin. A built-in handler has it in its config:
//     core/declared.Probe.Place. An address of prober.yaml sets either by core/declared.Template.At.
//   - pods/kube.targets.checkProbe decides on a node whether a pod may name it.
//   - handlers/builtin/internal/network.Connector.Resolve fills in the address of the pod, or
//     handlers/wasm/internal/egress.Policy.Dial decides what a plugin may reach.
//   - handlers/netns.Check asks pods/kube.Source.CheckTarget right before a connection.
//
// A config:
//
//   - core/declared.AnnotationJSON reads the text, and core/declared.Probe.setAction writes the JSON of a
//     built-in handler.
//   - core/manager.Manager.bind has it bound once, by handlers.Registry.Prepare.
//   - handlers/builtin/httpprobe.Handler.Prepare or handlers/wasm.Handler.Prepare decodes it; no tick does.
//
// A result:
//
//   - core/internal/engine.fold decides it, and core/results.claims.Set keeps it, by container.
//   - core/states.Rule.Tick makes a state of it, for all that people read.
//   - core/manager.Manager.UpdatePodStatus writes it into the status of a pod.
//   - agent.Agent.apiStatus is the only converter to agent/api; metrics.state.ticked has the state for scrapes.
//
// A secret:
//
//   - core/manager.Manager.resolve finds the references in a config.
//   - agent/secrets.Policy.Resolve decides whether prober.yaml allows one, and reads it.
//   - plugin/schema.Schema.SecretsOf finds others in a config, by the schema of its plugin.
//   - core/declared.redactor.Probe removes them from all that a handler answers.
//
// A grant:
//
//   - plugin.ParseGrants reads it from prober.yaml; plugin/admit.Scanner.ScanFor has it with its plugin.
//   - plugin/live.Manager.loadGeneration loads the plugin with it.
//   - handlers/wasm/internal/egress.NewPermissions intersects it with the requests of the plugin, and
//     handlers/wasm/internal/egress.dial.decideGrant decides by both.
package prober
