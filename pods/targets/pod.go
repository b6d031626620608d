package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/address"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local/manifest"
)

const (
	// GroupLabel is [config.GroupLabel].
	GroupLabel = config.GroupLabel
	// AddressAnnotation has the listed or relabelled address of a target.
	AddressAnnotation = "prober.dev/target-address"
	// LabelsAnnotation has the labels of a target that are not valid for a pod, as a JSON object.
	LabelsAnnotation = "prober.dev/target-labels"
)

const (
	maxPodName = 63 // a DNS label
	hashLength = 8  // length of the hash in a name that would be too long, or that another pod has
)

// podName returns the name of the pod of a target: the name of the group, a dash and the name of the target. Dashes
// replace characters that are not valid in a DNS label. A name that would be too long ends with a hash.
func podName(group, name string) string {
	var b strings.Builder
	b.WriteString(group)
	dash, short := true, strings.ToLower(name)
	if _, rest, ok := strings.Cut(short, "://"); ok {
		short = rest
	}
	for _, r := range short {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			if dash {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			dash = false
		default:
			dash = true
		}
	}
	text := b.String()
	if len(text) > maxPodName || text == group {
		return hashedName(text, group, name)
	}
	return text
}

// hashedName returns a unique name for a target, which begins like text and ends with a hash.
func hashedName(text, group, name string) string {
	sum := sha256.Sum256([]byte(group + "\x00" + name))
	text = text[:min(len(text), maxPodName-1-hashLength)]
	return strings.TrimRight(text, "-") + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// uidOf returns the UID of the pod of a target. It depends only on the namespace, the group and the name
// of the target, so that probes keep their counters when anything else changes.
func uidOf(namespace, group, name string) types.UID {
	sum := sha256.Sum256([]byte("target\x00" + namespace + "\x00" + group + "\x00" + name))
	text := hex.EncodeToString(sum[:16])
	return types.UID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// noGrace is the grace period of all targets, which end at once.
var noGrace int64

// newPod returns the pod of a target with its probe.
func newPod(g *group, name, target string, a *address.Address, listed string, labels map[string]string) (*declared.Pod, error) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: g.namespace, UID: uidOf(g.namespace, g.name, target),
			Annotations: map[string]string{manifest.AddressAnnotation: a.Host, AddressAnnotation: listed},
		},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &noGrace,
			Containers: []v1.Container{{Name: pods.TargetContainer}},
		},
	}
	all := setLabels(pod, g.name, labels)
	c := &pod.Spec.Containers[0]
	if a.Port != 0 {
		c.Ports = []v1.ContainerPort{{ContainerPort: int32(a.Port), Protocol: v1.ProtocolTCP}}
	}
	if g.blueprint.Probe().Handler == "exec" {
		c.Env = []v1.EnvVar{{Name: "TARGET_ADDRESS", Value: listed}, {Name: "TARGET_HOST", Value: a.Host}}
		if a.Port != 0 {
			c.Env = append(c.Env, v1.EnvVar{Name: "TARGET_PORT", Value: strconv.Itoa(a.Port)})
		}
	}
	if _, err := g.blueprint.probeOf(a, c.Env); err != nil {
		return nil, err
	}
	return declared.One(pod, func() declared.Probe {
		config, _ := g.blueprint.probeOf(a, c.Env) // has succeeded above
		return config
	}).WithLabels(all), nil
}

// setLabels sets the labels of a pod of the named group, which must have annotations. It returns all labels,
// also those that are not valid for a pod.
func setLabels(pod *v1.Pod, group string, labels map[string]string) (all map[string]string) {
	var odd map[string]string
	pod.Labels, odd = podLabels(labels)
	pod.Labels[GroupLabel] = group
	if len(odd) == 0 {
		return pod.Labels
	}
	text, _ := json.Marshal(odd) // strings can be encoded
	pod.Annotations[LabelsAnnotation] = string(text)
	maps.Copy(odd, pod.Labels)
	return odd
}

// podLabels splits labels into labels that are valid for a pod, and others. It drops labels that begin with __: they
// are only for relabelling, as in Prometheus. Labels with the prefix prober.dev/ are reserved, and so not valid.
func podLabels(labels map[string]string) (valid, odd map[string]string) {
	valid = make(map[string]string, len(labels)+1)
	for name, value := range labels {
		switch {
		case strings.HasPrefix(name, "__"):
		case len(validation.IsValidLabelValue(value)) == 0 && len(validation.IsQualifiedName(name)) == 0 && !strings.HasPrefix(name, "prober.dev/"):
			valid[name] = value
		default:
			if odd == nil {
				odd = make(map[string]string)
			}
			odd[name] = value
		}
	}
	return valid, odd
}

// Limits of the labels of a target.
const (
	maxLabels     = 100
	maxLabelBytes = 16 << 10 // total of all names and values
)

// checkLabels returns an error for too many labels.
func checkLabels(labels map[string]string) error {
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
	}
	if len(labels) > maxLabels || size > maxLabelBytes {
		return fmt.Errorf("there are more than %d labels, or more than %d bytes of them", maxLabels, maxLabelBytes)
	}
	return nil
}

// visible returns the labels without names that begin with __.
func visible(labels map[string]string) map[string]string {
	for name := range labels {
		if strings.HasPrefix(name, "__") {
			kept := maps.Clone(labels)
			maps.DeleteFunc(kept, func(name, _ string) bool { return strings.HasPrefix(name, "__") })
			return kept
		}
	}
	return labels
}
