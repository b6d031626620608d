// Package manifest reads the manifests of pods that run as local processes: files with
// documents of kind Pod, or of kind List with pods as items.
//
// [Source.Load] is the entry point. The pods that it returns are valid, have the defaults of the
// Kubernetes API, and have a UID. Its errors have the file, the line and the field.
//
// Read load.go first: it decodes each document and calls validate.go, container.go and
// names.go. files.go finds and reads the files. identity.go decides which user a container runs as.
package manifest
