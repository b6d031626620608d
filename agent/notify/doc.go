// Package notify tells people of changes of the states of probes: by webhooks, commands and mail, as
// `notify` in prober.yaml says.
//
// Read book.go first: what a receiver knows, what it has to be told, and when. It is a pure state machine.
// notifier.go takes the changes, and receiver.go is the goroutine of a receiver, which alone waits for it.
// build.go makes messages, which package format turns into what receivers take; webhook.go, exec.go and mail.go
// send them. state.go keeps the books over restarts, and status.go shows them.
package notify
