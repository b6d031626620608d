// Package plugins is the side of an agent that has to do with handlers: a [Set] of the
// built-in ones and the plugins.
//
// Plugins are kept by plugin/live, by the decisions of plugin/admit. set.go connects the two
// to files and metrics: read it first. loader.go loads a plugin with its runtime, holds.go
// holds the plugins that pods name, registries.go asks registries, watch.go sees changes of
// files, and status.go shows what can be seen of plugins.
//
// A Set starts no loop. The agent calls it when files have changed or time has passed.
package plugins
