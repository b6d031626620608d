// Package wasm runs plugins that are WebAssembly modules, in a sandbox: a guest
// reaches the target that it probes and nothing else, ends at its deadline whatever
// it does, and leaves nothing behind for the next call.
//
// A [Host] holds what plugins share. [Host.Load] makes a handler of a module, and
// [RegisterAll] does so with all that plugin.Find has found. The contract with guests is
// docs/abi.md, in Go internal/abi.
//
// Read handler.go, then bound.go: one attempt.
//
//   - Handler.Prepare binds a plugin to the config of one probe; bound.Probe makes an attempt.
//   - begin acquires a slot of sched.Slots, so that no more guests compute than there are processors.
//   - take admits the call within its sched.Quota, and takes an idle instance or makes one of the image.
//   - instance.run enters the guest; guest.World.Enter has a watchdog end it with the context.
//   - The guest calls the host functions of internal/guest; while one waits, its slot is free.
//   - A dial goes through egress.Policy: decide.go allows or refuses each address after names were resolved.
//   - At the deadline, a guest that waits is unwound; a guest that computes loses its instance.
//   - Call.Outcome makes an outcome of the guest's number and result document; kv is committed.
//   - back resets the instance to the image, memory.Image.Restore, or throws it away.
//   - The class of the probe, prompt or slow, decides the share of its next attempt.
package wasm
