// Package prober is the map of the module. Its one piece of code hands out the source
// of the SDK.
//
// prober runs the kubelet's liveness, readiness and startup probes in any Go program,
// and lets WebAssembly plugins carry them out. Read its rooms in this order:
//
//   - probe: the vocabulary. What a probe is, what a handler is asked and answers.
//   - core/worker: one probe. worker.go is its life, tick.go one scheduled run from top
//     to bottom, fold.go the rule of the thresholds.
//   - core/results: the last decided result of every container, and who hears of changes.
//   - core/manager: AddPod, RemovePod, UpdatePodStatus and the rest of the kubelet's
//     probe manager. The door for programs that embed prober.
//   - handlers: finding a handler by name; handlers/builtin: exec, http, tcp and grpc;
//     handlers/wasm: handlers that are sandboxed WebAssembly modules; handlers/process:
//     handlers that are programs.
//   - plugin: a plugin's manifest, and finding plugins in folders.
//   - sdk: what the author of a plugin imports, and sdk/process to serve it as a program;
//     internal/abi: the contract between host and guest, internal/pluginpb: the same with
//     a program.
//   - pods/local: pods from manifest files whose containers are local processes.
//   - metrics: the Prometheus view of all ticks.
//   - config, agent, internal/cli, cmd/prober: the agent that operators run.
//
// Arrows point down only: the core imports no handler, and handlers import nothing of
// the core. arch_test.go holds every room to that.
package prober
