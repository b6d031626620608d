// Package incidents groups failing probes into incidents: failures that begin together and share a cause, a place
// or a dependency.
//
// [Find] is the rule, and [Log.Step] gives its incidents an identity over time. Both are pure. [Watch] calls Step
// when states change, and has the notes of people; file.go keeps both over a restart. features.go has what probes may share, find.go the grouping, and title.go the words.
//
// # What an incident is
//
// A failing probe has failed, or gives no verdict: a plugin that traps, trouble of the host, a failed dependency.
// Failures with the same feature begin together if each begins at most [Gap] after the one before it, and at most
// [Spread] after the first one. The features are:
//
//   - the pod, with two probes or more
//   - the address, with two probes or more
//   - the cause: the reason, with the plugin for its own faults, and with the text without numbers if the reason
//     alone says too little, as for an HTTP status
//   - the range of addresses, /24 or /64, with three addresses or more
//   - the plugin, the group of targets, and each of [MaxLabels] labels, with three pods or more
//
// All of them except the cause only count if few healthy probes have them: one for three failing ones.
//
// The feature with the most failing probes makes an incident. Of equal ones, the first of the list above does. The
// rest of the probes is grouped in the same way. So each failing probe is in exactly one incident, and one probe
// alone may be an incident.
//
// A probe that fails because of others is not grouped by its own features: it joins the incident with most of the
// probes that it depends on. The first probe of an incident is the earliest one that does not depend on others.
package incidents
