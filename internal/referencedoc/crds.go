package main

import (
	"maps"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/kube/policy"
)

// crdsFile has the custom resources of the cluster, from the folder of the documents.
const crdsFile = "../deploy/kubernetes/components/policies/crds.yaml"

// object is a part of a YAML document.
type object = map[string]any

// crds returns the definitions of the custom resources. The schema of a probe is the annotation's.
func crds() (string, error) {
	texts, err := annotationTexts()
	if err != nil {
		return "", err
	}
	annotation, err := decoded(declared.AnnotationSchema(texts.text))
	if err != nil {
		return "", err
	}
	definitions := annotation["$defs"].(object)
	probe := structural(definitions["probe"].(object), definitions)
	var b strings.Builder
	b.WriteString("# Written by `make docs` from pods/kube/policy and the schema of the annotation prober.dev/probes. Do not edit.\n")
	for i, crd := range []object{
		crd("ProbePolicy", policy.PoliciesResource, "Namespaced", policySpec(probe), policyStatus(), policyColumns()),
		crd("NodeProbes", policy.NodeProbesResource, "Cluster", nodeSpec(), nil, nil),
	} {
		text, err := yaml.Marshal(crd)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(text)
	}
	return b.String(), nil
}

// crd returns the definition of a resource. status is nil for a resource without one.
func crd(kind, plural, scope string, spec, status object, columns []object) object {
	fields := object{"apiVersion": object{"type": "string"}, "kind": object{"type": "string"}, "metadata": object{"type": "object"}, "spec": spec}
	version := object{
		"name": policy.GroupVersion.Version, "served": true, "storage": true,
		"schema": object{"openAPIV3Schema": object{"type": "object", "required": []string{"spec"}, "properties": fields}},
	}
	if status != nil {
		fields["status"], version["subresources"] = status, object{"status": object{}}
	}
	if columns != nil {
		version["additionalPrinterColumns"] = columns
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": plural + "." + policy.GroupVersion.Group},
		"spec": object{
			"group": policy.GroupVersion.Group, "scope": scope, "versions": []object{version},
			"names": object{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind), "categories": []string{"prober"}},
		},
	}
}

// policySpec returns the schema of the spec of a ProbePolicy. probe is the schema of a probe in the annotation.
func policySpec(probe object) object {
	fields := probe["properties"].(object)
	name := object{"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"} // DNS labels
	fields["name"] = withText(name, "name of the probe within the policy")
	fields["container"] = withText(name, "name of the container")
	fields["kind"] = object{"type": "string", "enum": policy.Kinds(), "description": "kind of the probe"}
	probe["required"] = []string{"name", "container", "kind"}
	var set []string
	for _, field := range declared.HandlerFields() {
		set = append(set, "has(self."+field+")")
	}
	probe["x-kubernetes-validations"] = []object{{
		"rule":    "[" + strings.Join(set, ", ") + "].filter(x, x).size() == 1",
		"message": "a probe has one of " + strings.Join(declared.HandlerFields(), ", "),
	}}
	return object{
		"type": "object", "required": []string{"selector", "probes"},
		"properties": object{
			"selector": selector(),
			"probes": object{
				"type": "array", "minItems": 1, "maxItems": policy.MaxProbes, "items": probe,
				"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []string{"name"},
				"description": "probes of the selected pods. A probe of the annotation of a pod goes before them, and of two policies the older counts",
				"x-kubernetes-validations": []object{{
					"rule":    "self.all(p, self.exists_one(q, q.container == p.container && q.kind == p.kind))",
					"message": "a container has one probe of a kind: it combines several checks with all, any or atLeast",
				}},
			},
			"liveness": object{"type": "string", "enum": config.LivenessModes, "description": "what follows a failed liveness or startup probe, for pods without the annotation prober.dev/liveness"},
		},
	}
}

// selector returns the schema of a label selector that never changes.
func selector() object {
	text := object{"type": "string", "maxLength": 317} // a prefix of 253 characters, a slash, and a name of 63
	return object{
		"type": "object", "description": "labels of the pods, in the namespace of the policy. It cannot be changed",
		"x-kubernetes-map-type":    "atomic",
		"x-kubernetes-validations": []object{{"rule": "self == oldSelf", "message": "cannot be changed: create another policy"}},
		"properties": object{
			"matchLabels": object{"type": "object", "maxProperties": 32, "additionalProperties": object{"type": "string", "maxLength": 63}},
			"matchExpressions": object{"type": "array", "maxItems": 32, "items": object{
				"type": "object", "required": []string{"key", "operator"},
				"properties": object{
					"key": text, "operator": object{"type": "string", "enum": []string{"In", "NotIn", "Exists", "DoesNotExist"}},
					"values": object{"type": "array", "maxItems": 64, "items": object{"type": "string", "maxLength": 63}},
				},
			}},
		},
	}
}

// policyStatus returns the schema of the status of a ProbePolicy.
func policyStatus() object {
	counts := make(object)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Pods]()) {
		counts[f.Tag.Get("json")] = object{"type": "integer"}
	}
	condition := make(object)
	for _, name := range []string{"type", "status", "reason", "message"} {
		condition[name] = object{"type": "string"}
	}
	condition["lastTransitionTime"] = object{"type": "string", "format": "date-time"}
	condition["observedGeneration"] = object{"type": "integer", "format": "int64"}
	return object{"type": "object", "properties": object{
		"observedGeneration": object{"type": "integer", "format": "int64"},
		"pods":               object{"type": "object", "properties": counts},
		"conditions": object{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []string{"type"},
			"items": object{"type": "object", "required": []string{"type", "status"}, "properties": condition},
		},
	}}
}

func policyColumns() (columns []object) {
	for _, c := range []struct{ name, kind, path string }{
		{policy.Accepted, "string", conditionPath(policy.Accepted)},
		{policy.Programmed, "string", conditionPath(policy.Programmed)},
		{"Matched", "integer", ".status.pods.matched"},
		{"Healthy", "integer", ".status.pods.healthy"},
		{"Failing", "integer", ".status.pods.failing"},
		{"Age", "date", ".metadata.creationTimestamp"},
	} {
		columns = append(columns, object{"name": c.name, "type": c.kind, "jsonPath": c.path})
	}
	return columns
}

// conditionPath returns the path of the status of a condition.
func conditionPath(name string) string {
	return `.status.conditions[?(@.type=="` + name + `")].status`
}

// nodeSpec returns the schema of the spec of NodeProbes, which the controller alone writes.
func nodeSpec() object {
	return object{"type": "object", "properties": object{
		"policies": object{"type": "array", "items": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
	}}
}

func withText(schema object, text string) object {
	next := object{"description": text}
	maps.Copy(next, schema)
	return next
}

// structural returns a JSON Schema in the form that an API server accepts: without references, lists of types and
// additionalProperties: false. Unknown fields are refused by the validation of fields, which kubectl asks for.
func structural(schema, definitions object) object {
	if ref, ok := schema["$ref"].(string); ok {
		next := structural(definitions[strings.TrimPrefix(ref, "#/$defs/")].(object), definitions)
		if text, ok := schema["description"]; ok {
			next["description"] = text
		}
		return next
	}
	next := make(object)
	for name, value := range schema {
		switch v := value.(type) {
		case object:
			switch name {
			case "properties":
				fields := make(object)
				for field, s := range v {
					fields[field] = structural(s.(object), definitions)
				}
				next[name] = fields
			case "items", "additionalProperties":
				next[name] = structural(v, definitions)
			}
		case []any:
			switch name {
			case "enum":
				next[name], next["type"] = v, "string"
			case "type":
				next["x-kubernetes-int-or-string"] = true
			}
		case bool: // additionalProperties: false
		default:
			next[name] = v
		}
	}
	if next["x-kubernetes-int-or-string"] == true {
		delete(next, "minimum")
		delete(next, "maximum")
		delete(next, "pattern")
	}
	if next["type"] == nil && next["x-kubernetes-int-or-string"] == nil || next["type"] == "object" && next["properties"] == nil && next["additionalProperties"] == nil {
		next["x-kubernetes-preserve-unknown-fields"] = true
	}
	return next
}
