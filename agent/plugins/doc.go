// Package plugins has the handlers of an agent: a [Set] of the built-in ones and the plugins.
//
// plugin/admit decides which plugins may be loaded, and plugin/live loads them. set.go connects
// the two to files and metrics: read it first. loader.go loads a plugin with its runtime,
// holds.go keeps the plugins that pods name from being unloaded, registries.go queries
// registries, watch.go detects changes of files, and status.go makes the answers of the API.
//
// A Set has no loop. The agent calls it when files have changed or time has passed.
package plugins
