// Package whatif computes what would have happened with another prober.yaml: which changes of state other
// thresholds would have made of the same failures, and which messages receivers would have got. It is pure: the
// changes come from the history of an agent, or are made up.
package whatif
