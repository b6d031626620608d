package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

// probeFields describes every field of a probe in the annotation prober.dev/probes.
var probeFields = []field{
	{"httpGet", "HTTP: a status from 200 to 399 is Success. `path`, `port`, `host`, `scheme` (`HTTP`, `HTTPS`), `httpHeaders`, as in Kubernetes, and `connection`: `fresh` or [`reuse`](probe/http-connections.md)", ""},
	{"tcpSocket", "TCP: a connection is Success. `port`, `host`", ""},
	{"grpc", "gRPC: SERVING is Success. `port`, `service`", ""},
	{"exec", "a command: exit code 0 is Success. `command`", ""},
	{"plugin.name", "name of a plugin, or of a built-in handler: `exec`, `grpc`, `http`, `tcp`", ""},
	{"plugin.target.host", "name or IP address", "the pod's address"},
	{"plugin.target.port", "number, or name of a port of the container", ""},
	{"plugin.target.unix", "path of a unix socket, in place of host and port", ""},
	{"plugin.config", "configuration by the plugin's own schema: `prober plugin inspect` shows it. Strings may refer to [secrets](secure/secrets.md)", "`{}`"},
	{"all", "checks that must all succeed, by name, in place of a handler: see [Several checks](#several-checks)", ""},
	{"any", "checks of which one must succeed", ""},
	{"atLeast.min", "sum of the weights of the checks that must succeed", ""},
	{"atLeast.of", "checks by name. Each may have a `weight` from 1 to 1000, by default 1", ""},
	{"initialDelay", "time from the start of the container to the first attempt", ""},
	{"period", "time between two ticks, at least `10ms`; with `prober node` at least [`kubernetes.minPeriod`](prober-yaml.md#kubernetes)", ""},
	{"timeout", "time limit of an attempt, at least `10ms`", ""},
	{"unhealthyPeriod", "`period` [while the result is not success, or may change](probe/timing.md#probe-more-often-while-something-fails), with the same minimum", "`period`"},
	{"jitter", "share of the period, such as `10%`, by which [each tick moves at random](probe/timing.md#spread-attempts-at-random)", "`0%`"},
	{"initialState", "state and result before the first decision: `unknown`, `success` or `failure`; for readiness only. With `unknown` the result is failure, as in Kubernetes", "`unknown`"},
	{"initialDelaySeconds", "`initialDelay` in whole seconds, as in Kubernetes", ""},
	{"periodSeconds", "`period` in whole seconds", ""},
	{"timeoutSeconds", "`timeout` in whole seconds", ""},
	{"successThreshold", "successes in a row that decide Success; must be 1 for liveness and startup", ""},
	{"failureThreshold", "failures in a row that decide Failure", ""},
	{"terminationGracePeriodSeconds", "grace period when the container is stopped for this probe; not for readiness", "the pod's"},
	{"warningAs", "what a Warning counts as: `success` or `failure`", "`success`"},
	{"errorPolicy", "what an attempt with an error counts as: `discard`, which keeps the result, or `failure`. An error by a fault of the host always keeps it. Manifests and prober.yaml call `discard` `error`", "`discard`, or the plugin's"},
	{"paused", "`true` stops the attempts; the result stays", ""},
}

// annotations are the other annotations of pods: who reads them, and their meaning.
var annotations = []struct{ name, reader, values, text string }{
	{"prober.dev/address", "`prober run`", "name or IP address", "where a container without a `command` is probed"},
	{"prober.dev/umask", "`prober run`", "octal number", "file mode creation mask of the pod's processes"},
	{"prober.dev/liveness", "`prober node`", "`observe`, `sidecar`, `restart`, `evict`; default `observe`", "what follows a failed liveness or startup probe"},
	{"prober.dev/conditions", "`prober node`", "`\"true\"`, `\"false\"`; default `\"false\"`", "whether each probe has a condition of its own"},
	{"prober.dev/network", "`prober node`", "`node`, `pod`; default `node`", "the network in which probes are made"},
	{"prober.dev/on-agent-loss", "`prober node`", "`keep`, `unready`; default `keep`", "what becomes of the readiness gate while the agent of the node is away"},
}

// annotationDefaults returns the defaults of the fields of a probe by path.
func annotationDefaults() (map[string]string, error) {
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sample", Annotations: map[string]string{declared.Annotation: `{app: {readiness: {tcpSocket: {port: 80}}}}`}}}
	pod.Spec.Containers = []v1.Container{{Name: "app"}}
	probes, errs := declared.ProbesOf(&pod)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return specDefaults(probes[0].Spec), nil
}

// annotationPage returns docs/annotation.md.
func annotationPage() (string, error) {
	defaults, err := annotationDefaults()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head("The annotation prober.dev/probes", 20, "Every field of a probe in a pod's annotation, and the other annotations.", "internal/referencedoc/annotation.go, and its defaults from package core/declared"))
	b.WriteString("The annotation declares probes that Kubernetes cannot: plugins, durations below a second, and policies.\n" +
		"It is YAML: containers, then kinds (`liveness`, `readiness`, `startup`), then a probe.\n" +
		"A probe there takes the place of the container's own probe of that kind.\n\n" +
		"```yaml\napiVersion: v1\nkind: Pod\nmetadata:\n  name: shop\n  annotations:\n    prober.dev/probes: |\n      web:\n        readiness:\n          httpGet: {path: /ready, port: 8080}\n          period: 500ms\n          timeout: 200ms\n" +
		"spec:\n  containers:\n  - name: web\n    command: [shop]\n```\n\n" +
		"A probe has one of `httpGet`, `tcpSocket`, `grpc`, `exec` and `plugin`, or several checks.\n\n| field | default | meaning |\n|---|---|---|\n")
	for _, f := range probeFields {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.path, cmp.Or(f.value, defaults[f.path]), f.text)
	}
	b.WriteString("\nA field that is not listed, or that is given twice, is an error with its path. The other probes of the pod run.\n\n" +
		severalChecksText +
		"## Other annotations of a pod\n\n| annotation | read by | values | meaning |\n|---|---|---|---|\n")
	for _, a := range annotations {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.name, a.reader, a.values, a.text)
	}
	return b.String(), nil
}

// severalChecksText is the section about checks that one probe combines.
const severalChecksText = "## Several checks\n" +
	"A probe may combine up to 16 checks, each with a name and a handler:\n\n" +
	"```yaml\napiVersion: v1\nkind: Pod\nmetadata:\n  name: shop\n  annotations:\n    prober.dev/probes: |\n      web:\n        readiness:\n          all:\n" +
	"            page: {httpGet: {path: /ready, port: 8080}}\n            cache: {tcpSocket: {port: 6379}}\n          period: 5s\n" +
	"        liveness:\n          atLeast:\n            min: 2\n            of:\n              page: {httpGet: {path: /live, port: 8080}, weight: 2}\n              admin: {tcpSocket: {port: 9090}}\n" +
	"spec:\n  containers:\n  - name: web\n    command: [shop]\n```\n\n" +
	"Every attempt makes all checks at once, and waits for all of them within the one `timeout`. It has one result, by the rules of [endpoints](probe/several-checks.md#choose-how-checks-count): thresholds, period and policies are those of the probe.\n" +
	"The output names the checks that decide, `prober explain` shows the attempt of each, and metrics of a plugin have the label `check`. The handler of the probe is called `checks`.\n\n" +
	"If the result depends on a check that ended in an error, the attempt is an error and is retried. In [`prober node`](kubernetes/_index.md) each check is a probe for the policy of targets, and counts for `maxRate`; one refused check refuses the probe. `prober sidecar` and targets of prober.yaml have no such probes.\n\n"

// specDefaults returns the defaults of the fields that set a spec.
func specDefaults(s probe.Spec) map[string]string {
	code := func(text string) string { return "`" + text + "`" }
	return map[string]string{
		"initialDelay": code(s.InitialDelay.String()), "period": code(s.Period.String()), "timeout": code(s.Timeout.String()),
		"successThreshold": code(strconv.Itoa(s.SuccessThreshold)), "failureThreshold": code(strconv.Itoa(s.FailureThreshold)), "paused": "`false`",
	}
}
