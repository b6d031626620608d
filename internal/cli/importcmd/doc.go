// Package importcmd has the commands of `prober import`, which turn configurations of other tools into
// prober.yaml.
//
// An importer reads the files of one tool into a [plan]: modules, groups of targets, pushes, endpoints,
// receivers, and findings about everything that has no equal. Read plan.go first. write.go writes a plan as
// prober.yaml, and check.go leaves out what prober refuses. http.go, probes.go and receivers.go build probes
// and receivers for all importers. object.go reads mappings, and reports the fields that nobody has read.
//
// Another importer is one file with a function of the type importer.read, and a row of the table in
// importcmd.go.
package importcmd
