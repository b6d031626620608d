package format

import (
	"maps"
	"slices"
)

// Limits of the labels in a message. The pods of Kubernetes have fewer and shorter ones.
const (
	maxLabels     = 100
	maxLabelBytes = 4 << 10 // total of all names and values
)

// Labels returns labels that are safe for a message: with [Clean], and without those by name that would exceed
// the limits. It returns nil for no labels.
func Labels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	clean, size := make(map[string]string, min(len(labels), maxLabels)), 0
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key, value := Clean(name, MaxName), Clean(labels[name], MaxName)
		if size += len(key) + len(value); size > maxLabelBytes || len(clean) == maxLabels {
			break
		}
		clean[key] = value
	}
	return clean
}
