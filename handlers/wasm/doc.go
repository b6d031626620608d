// Package wasm runs plugins that are WebAssembly modules in a sandbox. A guest reaches
// only the target of its probe and granted addresses. It ends at its deadline, and leaves no state for
// the next call.
//
// A [Host] holds what plugins share. [Host.Load] returns a handler for a module, and [RegisterAll]
// loads and registers all plugins that plugin.Find returns. The contract with guests is
// docs/abi.md; internal/abi has it in Go.
//
// Read handler.go, then bound.go: one attempt.
//
//   - Handler.Prepare binds a plugin to the config of one probe; bound.Probe makes an attempt.
//   - begin acquires a slot of sched.Slots: as many guests compute as there are processors.
//   - acquire admits the call within its sched.Quota, and takes an idle instance or makes one of the image.
//   - instance.run enters the guest; guest.World.Enter starts the watchdog that ends it with the context.
//   - The guest calls the host functions of internal/guest. While one waits, the call releases its slot.
//   - A dial goes through egress.Policy, which looks names up. Its decide.go allows or refuses each address.
//   - At the deadline, a guest is unwound in the host call in which it waits or asks for fuel. A guest that
//     cannot count fuel and computes loses its instance.
//   - Call.Outcome returns the outcome of the guest's verdict and result document; kv is committed.
//   - release resets the instance with memory.Image.Restore, or closes it.
//   - The history class of the probe, prompt or slow, decides the share of its next attempt.
package wasm
