// Package plugintest runs the test cases of a plugin, as `prober plugin test` does:
// the guest is real, and all that it can see of the world is played. Peers follow
// scripts, randomness has a seed, and time passes only while the guest waits, so that
// a target which never answers takes a test no time at all.
//
// [Load] reads a *_test.yaml file, [Run] carries it out.
package plugintest
