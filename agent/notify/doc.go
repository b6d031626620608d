// Package notify sends notifications of changes of probe states by webhook, command and mail, as configured
// under `notify` in prober.yaml.
//
// Read book.go first. A book tracks the state that a receiver knows, and the messages that are due. It is a pure
// state machine. notifier.go takes the changes. receiver.go has the goroutine of a receiver, the only one
// that waits for it. build.go builds messages, package format encodes them for receivers, and webhook.go,
// exec.go and mail.go send them. state.go saves the books across restarts, and status.go shows them.
package notify
