// Package plugins has the handlers of an agent: a [Set] of the built-in handlers and the plugins.
//
// plugin/admit decides which plugins may be loaded, and plugin/live loads them. Read set.go first: it
// connects the two to files and metrics. loader.go loads a plugin with its runtime, holds.go keeps plugins
// that pods refer to loaded, registries.go queries registries, watch.go detects changes of files, and
// status.go builds the responses of the API.
//
// A Set has no loop. The agent calls it when files have changed or time has passed.
package plugins
