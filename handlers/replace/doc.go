// Package replace swaps the code of a handler while probes use it.
//
// A [Handler] is registered once. Behind it is one handler at a time, a generation.
// [Handler.Replace] puts another one in its place; [Handler.Shadow] runs one beside it for
// comparison.
//
// Read handler.go first: Prepare binds a probe, Replace changes what is behind it. Then
// install.go, one replacement from top to bottom: prepare the live probes with the new
// handler, try it, install it. bound.go is one probe and its attempts, generation.go counts
// the attempts of a generation, end.go closes it after the last one.
package replace
