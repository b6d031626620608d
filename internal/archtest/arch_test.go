package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// packages lists what each package may import: packages of this module (a trailing /* stands
// for everything below), and modules of others. A package that is not listed fails the test.
var packages = map[string]struct {
	ours   []string
	others []string
}{
	"probe":                      {ours: []string{"internal/suspend"}},
	"internal/suspend":           {},
	"internal/handshake":         {},
	"probe/probetest":            {ours: []string{"probe"}},
	"internal/abi":               {ours: []string{"probe", "internal/certificates"}},
	"internal/perfdata":          {ours: []string{"probe", "internal/clip"}},
	"internal/rustname":          {},
	"internal/explain":           {ours: []string{"probe", "internal/clip"}},
	"sdk":                        {ours: []string{"probe", "internal/abi", "internal/certificates", "internal/dnswire"}},
	"sdk/sdkhttp":                {ours: []string{"sdk"}},
	"sdk/sdktest":                {ours: []string{"probe", "sdk", "plugin", "plugin/plugintest", "plugin/schema", "handlers/wasm"}},
	"internal/pluginpb":          {others: []string{"google.golang.org/grpc", "google.golang.org/protobuf"}},
	"internal/pluginpb/generate": {},
	"sdk/process": {
		ours:   []string{"probe", "sdk", "internal/abi", "internal/pluginpb"},
		others: []string{"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc"},
	},
	"core/results":       {ours: []string{"probe", "core/internal/seam", "internal/clip"}},
	"core/internal/seam": {},
	"core/worker":        {ours: []string{"probe", "core/internal/seam", "core/results", "internal/explain"}},
	"core/internal/engine": {
		ours: []string{"probe", "core/internal/seam", "core/results", "core/worker", "internal/clip", "internal/explain", "internal/handshake", "internal/suspend"},
	},
	"core/endpoint": {ours: []string{"probe", "core/group", "core/internal/seam", "core/results", "core/states", "core/worker", "internal/clip"}},
	"core/states":   {ours: []string{"core/results", "core/worker", "probe", "internal/clip", "internal/explain"}},
	"core/group":    {ours: []string{"probe", "core/internal/engine", "core/internal/seam", "core/worker", "core/results", "internal/explain"}},
	"core/declared": {
		ours:   []string{"probe", "internal/clip", "internal/nearest", "internal/redact", "internal/shape"},
		others: []string{"go.yaml.in/yaml", "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/json", "sigs.k8s.io/yaml"},
	},
	"core/internal/podtest":    {ours: []string{"probe", "core/declared"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}}, // for tests
	"core/manager/managertest": {others: []string{"k8s.io/api", "k8s.io/apimachinery"}},                                           // for tests
	"core/manager": {
		ours:   []string{"probe", "core/declared", "core/endpoint", "core/group", "core/internal/seam", "core/states", "core/worker", "core/results", "internal/explain"},
		others: []string{"k8s.io/api", "k8s.io/apimachinery"},
	},
	"handlers":                          {ours: []string{"probe", "internal/nearest", "internal/panics"}},
	"handlers/shadow":                   {ours: []string{"probe"}},
	"handlers/replace":                  {ours: []string{"probe", "handlers/shadow", "internal/panics", "internal/redact"}},
	"handlers/quarantine":               {ours: []string{"probe", "internal/pace"}},
	"handlers/limit":                    {ours: []string{"probe", "internal/pace"}},
	"handlers/internal/attempt":         {ours: []string{"probe", "handlers", "handlers/quarantine", "plugin", "internal/abi", "internal/clip", "internal/httpget", "internal/perfdata"}},
	"handlers/internal/rawconn":         {ours: []string{"probe", "handlers/netns"}},
	"handlers/netns":                    {ours: []string{"probe"}, others: []string{"golang.org/x/sys"}},
	"handlers/builtin":                  {ours: []string{"probe", "handlers", "handlers/builtin/*"}},
	"handlers/builtin/execprobe":        {ours: []string{"probe", "handlers/builtin/internal/action", "internal/explain", "internal/procgroup"}},
	"handlers/builtin/httpprobe":        {ours: []string{"probe", "handlers/netns", "handlers/builtin/internal/*", "internal/certificates", "internal/explain", "internal/httpget"}, others: []string{"golang.org/x/net/http2", "golang.org/x/net/http2/hpack"}},
	"handlers/builtin/tcpprobe":         {ours: []string{"probe", "handlers/builtin/internal/*"}},
	"handlers/builtin/grpcprobe":        {ours: []string{"probe", "handlers/netns", "handlers/builtin/internal/*"}, others: []string{"golang.org/x/net/http2/hpack", "google.golang.org/grpc", "google.golang.org/protobuf"}},
	"handlers/builtin/internal/http2":   {others: []string{"golang.org/x/net/http2/hpack"}},
	"handlers/builtin/internal/action":  {},
	"handlers/builtin/internal/rig":     {ours: []string{"probe", "plugin"}, others: []string{"google.golang.org/grpc"}}, // for tests
	"handlers/builtin/internal/network": {ours: []string{"probe", "handlers/builtin/internal/action", "handlers/internal/rawconn", "handlers/netns", "internal/certificates", "internal/explain"}},
	"plugin": {
		ours: []string{"probe", "internal/abi", "internal/filestamp", "internal/joined", "internal/ownership", "internal/regular", "internal/shape", "internal/wasmfile", "internal/yamlpos", "plugin/schema"},
	},
	"plugin/schema": {others: []string{"github.com/santhosh-tekuri/jsonschema"}},
	"plugin/oci": {
		ours:   []string{"plugin", "internal/explain", "internal/netaddr", "internal/ownership", "internal/procgroup", "internal/regular", "internal/clip", "internal/semantic"},
		others: []string{"oras.land/oras-go", "github.com/opencontainers/image-spec", "github.com/opencontainers/go-digest"},
	},
	"plugin/index":       {ours: []string{"internal/semantic", "internal/yamlpos", "plugin"}, others: []string{"sigs.k8s.io/yaml"}},
	"plugin/compat":      {ours: []string{"internal/semantic", "plugin", "plugin/schema"}},
	"internal/semantic":  {others: []string{"golang.org/x/mod"}},
	"plugin/admit":       {ours: []string{"config", "internal/filestamp", "internal/joined", "internal/nearest", "plugin", "plugin/oci", "plugin/trust"}}, // config, since the entries of prober.yaml decide
	"plugin/credentials": {ours: []string{"config", "internal/regular", "internal/outbound"}},
	"plugin/live":        {ours: []string{"probe", "handlers", "handlers/quarantine", "handlers/replace", "handlers/shadow", "internal/safelog", "plugin", "plugin/admit", "plugin/trust"}},
	"plugin/trust":       {ours: []string{"plugin", "internal/ownership", "internal/regular", "internal/yamlpos"}, others: []string{"go.yaml.in/yaml"}},
	"handlers/shipped":   {ours: []string{"plugin"}},
	"handlers/wasm": {
		ours:   []string{"probe", "handlers", "handlers/internal/attempt", "handlers/internal/rawconn", "handlers/wasm/internal/*", "plugin", "internal/abi", "internal/ownership", "internal/redact", "internal/safelog", "internal/wasmfile"},
		others: []string{"github.com/tetratelabs/wazero"},
	},
	"handlers/wasm/internal/binary":   {ours: []string{"internal/abi", "internal/wasmfile"}, others: []string{"github.com/tetratelabs/wazero"}},
	"handlers/wasm/internal/compiled": {ours: []string{"handlers/wasm/internal/binary", "internal/wasmfile"}},
	"handlers/wasm/internal/memory":   {others: []string{"github.com/tetratelabs/wazero", "golang.org/x/sys"}},
	"handlers/wasm/internal/sched":    {},
	"handlers/wasm/internal/guest": {
		ours: []string{
			"probe", "handlers/internal/attempt", "handlers/internal/rawconn", "handlers/netns", "handlers/wasm/internal/binary", "handlers/wasm/internal/echo", "handlers/wasm/internal/egress",
			"handlers/wasm/internal/files", "handlers/wasm/internal/memory",
			"handlers/wasm/internal/sched", "plugin", "internal/abi", "internal/certificates", "internal/clip", "internal/dnswire", "internal/explain", "internal/perfdata", "internal/outbound", "internal/rustname",
		},
		others: []string{"github.com/tetratelabs/wazero"},
	},
	"handlers/wasm/internal/echo":      {ours: []string{"handlers/netns"}, others: []string{"golang.org/x/net/bpf", "golang.org/x/net/icmp", "golang.org/x/net/ipv4", "golang.org/x/net/ipv6"}},
	"handlers/wasm/internal/files":     {ours: []string{"internal/abi"}, others: []string{"golang.org/x/sys"}},
	"handlers/wasm/internal/egress":    {ours: []string{"probe", "plugin", "internal/abi", "internal/netaddr"}},
	"handlers/process/internal/sealed": {others: []string{"golang.org/x/sys"}},
	"handlers/process": {
		ours: []string{"probe", "handlers", "handlers/netns", "handlers/process/internal/*", "handlers/internal/attempt", "handlers/quarantine", "plugin", "internal/abi", "internal/explain", "internal/perfdata", "internal/pluginpb", "internal/ownership", "internal/regular", "internal/descriptors", "internal/marked", "internal/procgroup", "internal/pace", "internal/clip", "internal/redact", "internal/safelog"},
		others: []string{
			"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc", "google.golang.org/protobuf", "golang.org/x/sys",
		},
	},
	"plugin/plugintest": {
		ours:   []string{"probe", "handlers/*", "plugin", "plugin/schema", "internal/explain", "internal/ownership", "internal/perfdata", "internal/regular", "internal/rustname", "internal/shape", "internal/statefile", "internal/yamlpos", "plugin/plugintest/internal/*", "internal/clip"},
		others: []string{"go.yaml.in/yaml"},
	},
	"plugin/plugintest/internal/linetable": {ours: []string{"internal/wasmfile"}},
	"plugin/plugintest/internal/clock":     {ours: []string{"handlers/wasm"}},
	"plugin/plugintest/internal/field":     {ours: []string{"internal/yamlpos"}, others: []string{"go.yaml.in/yaml"}},
	"plugin/plugintest/internal/hostfile":  {ours: []string{"handlers/wasm", "internal/abi", "internal/shape", "internal/yamlpos", "plugin", "plugin/plugintest/internal/field"}, others: []string{"go.yaml.in/yaml"}},
	"plugin/plugintest/internal/expr":      {ours: []string{"internal/yamlpos"}},
	"plugin/plugintest/internal/cert":      {ours: []string{"internal/shape", "internal/yamlpos", "plugin/plugintest/internal/field"}},
	"plugin/plugintest/internal/capture":   {ours: []string{"probe", "internal/certificates", "plugin/plugintest/internal/cert"}},
	"plugin/plugintest/internal/peer": {
		ours: []string{"probe", "handlers/wasm", "internal/yamlpos", "plugin/plugintest/internal/capture", "plugin/plugintest/internal/cert", "plugin/plugintest/internal/clock", "plugin/plugintest/internal/field"},
	},
	"plugin/plugintest/internal/peer/httpmatch": {ours: []string{"internal/yamlpos", "plugin/plugintest/internal/field"}},
	"plugin/plugintest/internal/peer/program":   {ours: []string{"internal/procgroup"}},
	"plugin/plugintest/internal/peer/socket": {
		ours: []string{"internal/yamlpos", "plugin/plugintest/internal/capture", "plugin/plugintest/internal/cert", "plugin/plugintest/internal/expr", "plugin/plugintest/internal/field", "plugin/plugintest/internal/peer", "plugin/plugintest/internal/peer/httpmatch", "plugin/plugintest/internal/peer/program"},
	},
	"plugin/plugintest/internal/peer/web": {
		ours: []string{"handlers/wasm", "internal/yamlpos", "plugin/plugintest/internal/capture", "plugin/plugintest/internal/cert", "plugin/plugintest/internal/field", "plugin/plugintest/internal/peer", "plugin/plugintest/internal/peer/httpmatch"},
	},
	"plugin/plugintest/internal/peer/dns": {
		ours:   []string{"internal/shape", "internal/yamlpos", "plugin/plugintest/internal/capture", "plugin/plugintest/internal/field", "plugin/plugintest/internal/peer"},
		others: []string{"go.yaml.in/yaml", "golang.org/x/net/dns/dnsmessage"},
	},
	"plugin/plugintest/internal/peer/icmp": {
		ours: []string{"handlers/wasm", "internal/yamlpos", "plugin/plugintest/internal/capture", "plugin/plugintest/internal/field", "plugin/plugintest/internal/peer"},
	},
	"plugin/plugintest/internal/adverse": {
		ours:   []string{"internal/yamlpos", "plugin/plugintest/internal/field", "plugin/plugintest/internal/testfile"},
		others: []string{"go.yaml.in/yaml"},
	},
	"plugin/plugintest/internal/testfile": {
		ours:   []string{"probe", "plugin", "internal/regular", "internal/shape", "internal/yamlpos", "plugin/plugintest/internal/capture", "plugin/plugintest/internal/clock", "plugin/plugintest/internal/field", "plugin/plugintest/internal/hostfile", "plugin/plugintest/internal/peer", "plugin/plugintest/internal/peer/*"},
		others: []string{"go.yaml.in/yaml"},
	},
	"plugin/plugintest/internal/loopback": {
		ours: []string{"probe", "plugin", "internal/abi", "plugin/plugintest/internal/cert", "plugin/plugintest/internal/clock", "plugin/plugintest/internal/peer", "plugin/plugintest/internal/peer/web"},
	},
	"pods":               {ours: []string{"probe", "core/declared", "core/manager", "core/states", "handlers/netns", "metrics/agentmetrics"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"pods/internal/hook": {ours: []string{"internal/httpget", "internal/pace"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"pods/kube/queue":    {others: []string{"k8s.io/apimachinery/pkg/types"}},
	"pods/kube": {
		ours: []string{
			"config", "core/declared", "core/manager", "core/results", "core/states", "core/worker", "handlers/builtin", "handlers/netns", "internal/joined", "internal/netaddr", "metrics/agentmetrics", "pods",
			"pods/kube/api", "pods/kube/conditions", "pods/kube/liveness", "pods/kube/policy", "pods/kube/queue", "probe", "internal/pace", "internal/outbound", "internal/clip",
		},
		others: []string{"github.com/go-logr/logr", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go/tools/cache", "k8s.io/klog", "sigs.k8s.io/yaml"},
	},
	"pods/kube/policy":      {ours: []string{"core/declared", "probe"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"pods/kube/api":         {ours: []string{"core/manager", "internal/pace", "internal/clip", "pods/kube/policy"}, others: []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/streaming"}},
	"pods/kube/conditions":  {ours: []string{"core/states", "pods/kube/api", "probe", "internal/pace", "internal/clip"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"pods/kube/cri":         {ours: []string{"handlers/builtin/execprobe", "probe", "internal/pace", "internal/clip"}, others: []string{"google.golang.org/grpc", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/cri-api"}},
	"pods/kube/disruption":  {ours: []string{"pods/kube/api"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"pods/kube/liveness":    {ours: []string{"core/manager", "core/results", "core/states", "pods/internal/hook", "pods/kube/api", "probe", "internal/pace", "internal/clip"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"pods/kube/loss":        {ours: []string{"pods/kube/api", "pods/kube/conditions", "internal/pace"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"pods/kube/controller":  {ours: []string{"core/declared", "internal/clip", "internal/outbound", "internal/pace", "pods/kube/api", "pods/kube/conditions", "pods/kube/policy", "probe"}, others: []string{"github.com/go-logr/logr", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go/tools/cache", "k8s.io/klog"}},
	"internal/address":      {others: []string{"k8s.io/apimachinery"}},
	"internal/filestamp":    {},
	"internal/endless":      {},
	"internal/certificates": {ours: []string{"internal/clip", "internal/handshake"}},
	"internal/clip":         {},
	"internal/pace":         {},
	"internal/outbound":     {ours: []string{"internal/regular"}},
	"internal/httpget":      {ours: []string{"probe"}},
	"internal/netnstest":    {others: []string{"golang.org/x/sys"}}, // for tests
	"pods/local": {
		ours:   []string{"probe", "core/declared", "core/manager", "core/results", "handlers/netns", "pods", "internal/filestamp", "internal/procgroup", "internal/ownership", "internal/statefile", "pods/internal/hook", "pods/local/manifest", "pods/local/internal/process", "internal/pace"},
		others: []string{"k8s.io/api", "k8s.io/apimachinery"},
	},
	"pods/targets": {
		ours: []string{
			"probe", "config", "core/declared", "core/manager", "handlers/netns", "pods", "pods/local/manifest", "internal/address", "internal/netaddr", "internal/filestamp", "internal/joined", "internal/procgroup", "internal/regular", "internal/yamlpos", "internal/outbound", "internal/clip",
		},
		others: []string{"k8s.io/api", "k8s.io/apimachinery"},
	},
	"pods/local/manifest": {
		ours:   []string{"core/declared", "internal/joined", "internal/regular", "internal/yamlpos"},
		others: []string{"k8s.io/api", "k8s.io/apimachinery"},
	},
	"pods/local/internal/process": {ours: []string{"internal/procgroup", "pods/local/internal/shim"}, others: []string{"golang.org/x/sys"}},
	"pods/local/internal/shim":    {ours: []string{"internal/descriptors", "internal/marked"}}, // no others: see its init
	"metrics/internal/native":     {},
	"metrics/internal/exposition": {ours: []string{"metrics/internal/native"}, others: []string{"google.golang.org/protobuf"}},
	"metrics/internal/family":     {others: []string{"github.com/prometheus/client_golang"}},
	"metrics/agentmetrics":        {ours: []string{"metrics", "metrics/internal/family"}, others: []string{"github.com/prometheus/client_golang"}},
	"metrics": {
		ours:   []string{"probe", "core/worker", "core/results", "core/states", "metrics/internal/*"},
		others: []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common"},
	},
	"config": {
		ours:   []string{"probe", "plugin", "core/endpoint", "internal/shape", "internal/timespan", "internal/window", "internal/yamlpos"},
		others: []string{"k8s.io/apimachinery/pkg/labels", "k8s.io/apimachinery/pkg/util/validation"},
	},
	"agent/access": {
		ours:   []string{"internal/ownership", "internal/regular", "internal/pace", "internal/clip"},
		others: []string{"github.com/prometheus/exporter-toolkit/web", "go.yaml.in/yaml", "golang.org/x/sys"},
	},
	"agent/blackbox": {
		ours:   []string{"config", "core/worker", "handlers", "handlers/netns", "internal/explain", "internal/netaddr", "internal/redact", "internal/regular", "internal/yamlpos", "probe"},
		others: []string{"github.com/prometheus/client_golang", "github.com/prometheus/common", "google.golang.org/grpc/codes"},
	},
	"agent/secrets": {
		ours:   []string{"config", "core/declared", "internal/filestamp", "internal/regular"},
		others: []string{"k8s.io/api", "sigs.k8s.io/yaml"},
	},
	"agent/history": {
		ours:   []string{"agent/api", "agent/history/record", "core/states", "core/results", "core/worker", "probe", "internal/ownership", "internal/clip"},
		others: []string{"go.etcd.io/bbolt"},
	},
	"agent/history/record":  {ours: []string{"probe"}},
	"agent/history/reports": {ours: []string{"agent/api", "agent/history", "agent/reply", "internal/explain", "internal/timespan", "probe"}},
	"internal/timespan":     {},
	"internal/statefile":    {ours: []string{"internal/ownership", "internal/regular"}},
	"internal/window":       {ours: []string{"core/endpoint"}},
	"agent/notify/format":   {ours: []string{"config", "core/states"}},
	"agent/notify": {
		ours: []string{"agent/api", "agent/notify/format", "agent/reply", "core/states", "core/worker", "config", "internal/procgroup", "internal/redact", "internal/regular", "internal/statefile", "metrics/agentmetrics", "plugin", "probe", "internal/outbound", "internal/pace", "internal/clip"},
	},
	"agent/events": {ours: []string{"core/manager", "probe"}, others: []string{"k8s.io/api", "k8s.io/apimachinery"}},
	"agent/logs":   {ours: []string{"core/results", "core/worker", "internal/explain", "probe"}},
	"agent/api":    {},
	"docs":         {},
	"agent/page":   {ours: []string{"agent/reply", "docs"}},
	"agent/reply":  {ours: []string{"agent/api"}},
	"agent/pauses": {ours: []string{"agent/api", "config", "core/manager", "core/worker", "internal/statefile", "probe"}},
	"agent/certs":  {ours: []string{"agent/api", "core/worker", "internal/certificates", "internal/clip", "probe"}},
	"agent/maintenance": {
		ours:   []string{"agent/api", "agent/pauses", "config", "core/manager", "core/worker", "internal/statefile", "internal/window", "plugin"},
		others: []string{"k8s.io/apimachinery/pkg/types"},
	},
	"agent/slo": {
		ours: []string{"agent/api", "agent/history", "agent/history/record", "agent/maintenance", "config", "core/states", "core/worker", "internal/statefile", "internal/timespan", "metrics/agentmetrics", "probe"},
	},
	"agent/incidents": {ours: []string{"core/results", "core/states", "internal/statefile", "internal/clip", "internal/explain", "probe"}},
	"agent/otlp": {
		ours:   []string{"config", "core/worker", "internal/regular", "metrics", "metrics/agentmetrics", "probe", "internal/outbound", "internal/pace", "internal/clip"},
		others: []string{"github.com/prometheus/client_model", "github.com/prometheus/common", "go.opentelemetry.io/proto/slim/otlp", "google.golang.org/protobuf"},
	},
	"agent/hostwatch": {ours: []string{"probe", "core/worker", "internal/joined"}},
	"agent/statelock": {ours: []string{"internal/ownership"}},
	"agent/push": {
		ours:   []string{"agent/access", "agent/api", "agent/reply", "config", "core/endpoint", "core/manager", "core/states", "internal/clip", "internal/nearest", "internal/ownership", "internal/regular", "internal/statefile", "internal/yamlpos", "probe"},
		others: []string{"k8s.io/apimachinery/pkg/types"},
	},
	"agent/endpoints": {
		ours:   []string{"config", "core/declared", "core/endpoint", "core/manager", "core/results", "core/states", "core/worker", "pods/targets", "probe"},
		others: []string{"k8s.io/apimachinery/pkg/types"},
	},
	"agent/depend": {ours: []string{"probe", "config", "core/manager", "internal/clip", "pods/targets"}, others: []string{"k8s.io/apimachinery/pkg/types"}},
	"agent/stream": {
		ours:   []string{"probe", "agent/api", "agent/events", "agent/secrets", "core/manager", "core/worker", "internal/clip", "internal/explain", "pods"},
		others: []string{"k8s.io/api", "k8s.io/apimachinery"},
	},
	"agent/plugins": {
		ours:   []string{"probe", "agent/api", "agent/secrets", "config", "core/declared", "core/manager", "handlers", "handlers/builtin", "handlers/limit", "handlers/netns", "handlers/process", "handlers/shadow", "handlers/shipped", "handlers/wasm", "internal/filestamp", "internal/joined", "metrics", "plugin", "plugin/admit", "plugin/credentials", "plugin/live", "plugin/oci", "plugin/trust", "internal/pace"},
		others: []string{"k8s.io/api"},
	},
	"agent/client": {ours: []string{"agent/api", "internal/outbound"}},
	"agent/sidecar": {
		ours:   []string{"agent/access", "core/declared", "core/results", "core/worker", "internal/explain", "internal/joined", "internal/nearest", "probe", "internal/clip"},
		others: []string{"google.golang.org/grpc", "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"},
	},
	"agent": {
		ours:   []string{"probe", "agent/access", "agent/api", "agent/blackbox", "agent/certs", "agent/depend", "agent/endpoints", "agent/events", "agent/history", "agent/history/reports", "agent/hostwatch", "agent/incidents", "agent/logs", "agent/maintenance", "agent/notify", "agent/otlp", "agent/page", "agent/pauses", "agent/plugins", "agent/push", "agent/reply", "agent/secrets", "agent/slo", "agent/statelock", "agent/stream", "core/*", "handlers", "handlers/*", "plugin", "plugin/admit", "plugin/live", "plugin/schema", "pods", "pods/targets", "metrics", "metrics/agentmetrics", "config", "docs", "internal/explain", "internal/filestamp", "internal/joined", "internal/marked", "internal/procgroup", "internal/regular", "internal/ownership", "internal/clip"},
		others: []string{"github.com/prometheus/client_golang", "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"},
	},
	"internal/cli": {
		ours:   []string{"agent", "agent/access", "agent/history", "config", "core/declared", "docs", "probe", "plugin", "handlers", "handlers/builtin", "pods", "pods/kube", "pods/kube/*", "pods/local", "pods/local/manifest", "pods/targets", "internal/cli/*", "internal/footprint", "internal/explain", "internal/joined", "internal/nearest", "internal/regular", "internal/timespan"},
		others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "k8s.io/api", "k8s.io/apimachinery"},
	},
	"internal/cli/command": {
		ours:   []string{"internal/explain", "internal/nearest"},
		others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "sigs.k8s.io/yaml"},
	},
	"internal/cli/sidecarcmd": {
		ours: []string{
			"agent/access", "agent/logs", "agent/plugins", "agent/secrets", "agent/sidecar", "internal/cli/command", "internal/filestamp", "internal/footprint", "internal/marked", "internal/procgroup", "internal/regular", "metrics",
		},
		others: []string{"github.com/prometheus/client_golang", "github.com/spf13/cobra"},
	},
	"internal/cli/systemd": {ours: []string{"agent"}, others: []string{"github.com/coreos/go-systemd/v22/daemon"}},
	"internal/cli/remote": {
		ours:   []string{"agent/access", "agent/client", "internal/cli/command", "internal/explain", "internal/outbound"},
		others: []string{"github.com/spf13/cobra"},
	},
	"internal/cli/nodes": {
		ours:   []string{"agent/access", "agent/client", "internal/cli/command", "internal/cli/remote", "internal/explain", "pods/kube/api"},
		others: []string{"github.com/spf13/cobra", "k8s.io/api"},
	},
	"internal/cli/clientcmd": {
		ours:   []string{"agent/api", "agent/client", "agent/maintenance", "agent/notify/format", "config", "core/states", "internal/cli/command", "internal/cli/nodes", "internal/cli/remote", "internal/cli/watch", "internal/publicpage", "internal/explain", "internal/nearest", "internal/timespan", "pods", "pods/targets", "probe", "internal/clip", "internal/advise", "internal/whatif"},
		others: []string{"github.com/charmbracelet/x/ansi", "github.com/charmbracelet/x/term", "github.com/spf13/cobra", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"},
	},
	"internal/publicpage": {ours: []string{"agent/api", "agent/notify/format"}},
	"internal/cli/maintenancecmd": {
		ours:   []string{"agent/api", "agent/client", "internal/cli/command", "internal/cli/remote", "internal/explain", "pods/targets"},
		others: []string{"github.com/spf13/cobra"},
	},
	"internal/cli/simulatecmd": {
		ours:   []string{"agent/api", "agent/client", "agent/notify", "agent/notify/format", "config", "internal/cli/command", "internal/cli/remote", "internal/explain", "internal/timespan", "internal/whatif", "pods/targets", "probe"},
		others: []string{"github.com/spf13/cobra"},
	},
	"internal/advise": {ours: []string{"agent/api", "core/states", "internal/timespan", "internal/whatif", "probe"}},
	"internal/whatif": {ours: []string{"agent/api", "agent/notify", "agent/notify/format", "config", "core/results", "core/states", "core/worker", "probe"}},
	"internal/cli/pushcmd": {
		ours:   []string{"agent/client", "agent/notify/format", "internal/cli/command", "internal/cli/remote", "internal/clip", "internal/explain", "internal/outbound", "internal/pace", "internal/procgroup"},
		others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys", "k8s.io/apimachinery"},
	},
	"internal/cli/importcmd": {
		ours:   []string{"agent/blackbox", "config", "core/endpoint", "handlers/shipped", "internal/address", "internal/cli/command", "internal/explain", "internal/joined", "internal/regular", "internal/yamlpos", "plugin/schema", "pods/targets"},
		others: []string{"github.com/prometheus/common", "github.com/spf13/cobra", "go.yaml.in/yaml"},
	},
	"internal/cli/watch": {
		ours:   []string{"agent/api", "internal/explain", "internal/pace"},
		others: []string{"charm.land/bubbletea/v2", "github.com/charmbracelet/x/ansi", "k8s.io/apimachinery"},
	},
	"internal/cli/probecmd": {
		ours:   []string{"core/declared", "handlers", "handlers/builtin", "internal/cli/command", "internal/cli/oneshot", "internal/cli/program", "internal/explain", "probe"},
		others: []string{"github.com/spf13/cobra", "k8s.io/apimachinery"},
	},
	"internal/cli/program": {
		ours:   []string{"internal/cli/command", "internal/nearest"},
		others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
	},
	"internal/cli/oneshot": {
		ours:   []string{"probe", "core/declared", "core/worker", "handlers", "internal/address", "internal/cli/command", "internal/explain"},
		others: []string{"github.com/spf13/cobra"},
	},
	"internal/cli/plugincmd": {
		ours: []string{
			".", "agent/access", "agent/client", "agent/secrets", "config", "docs", "probe", "core/declared", "plugin", "plugin/*", "handlers", "handlers/*",
			"internal/abi", "internal/cli/command", "internal/cli/oneshot", "internal/cli/remote", "internal/explain", "internal/filestamp", "internal/joined", "internal/nearest", "internal/perfdata", "internal/procgroup", "internal/regular",
			"internal/clip", "internal/outbound", "internal/semantic", "internal/wasmfile", "internal/yamlpos",
		},
		others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
	},
	"internal/cli/clitest": {ours: []string{"internal/cli", "internal/cli/command", "plugin"}},
	"internal/dnswire":     {},
	"internal/joined":      {},
	"internal/nearest":     {},
	"internal/panics":      {},
	"internal/safelog":     {},
	"internal/shape":       {},
	"internal/yamlpos":     {ours: []string{"internal/joined", "internal/nearest", "internal/shape"}, others: []string{"go.yaml.in/yaml"}},
	"internal/descriptors": {},
	"internal/footprint":   {},
	"internal/marked":      {},
	"internal/procgroup":   {others: []string{"golang.org/x/sys"}},
	"internal/redact":      {},
	"internal/ownership":   {},
	"internal/wasmfile":    {ours: []string{"internal/abi"}},
	"internal/regular":     {others: []string{"golang.org/x/sys"}},
	"internal/netaddr":     {},
	"internal/doctest":     {},
	"internal/embedsize":   {},
	"test/e2e":             {},
	"internal/typecheck":   {},
	"internal/referencedoc": {
		ours:   []string{"config", "core/declared", "docs", "plugin", "plugin/plugintest", "pods/kube/policy", "probe", "internal/cli", "internal/cli/command", "internal/shape"},
		others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"},
	},
	"internal/sdkdoc":       {ours: []string{"internal/abi"}},
	"internal/metricsdoc":   {ours: []string{"metrics", "metrics/agentmetrics"}},
	"internal/openapidoc":   {ours: []string{"agent/api"}},
	"internal/registrytest": {ours: []string{"plugin", "plugin/oci"}, others: []string{"github.com/google/go-containerregistry"}},
	"internal/archtest":     {},
	"internal/docstest":     {},
	"internal/release": {
		ours:   []string{"internal/cli", "internal/cli/command"},
		others: []string{"github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/crypto/x509roots/fallback"},
	},
	"cmd/prober":          {ours: []string{"handlers/wasm", "internal/cli", "internal/descriptors"}},
	"cmd/prober-probe":    {ours: []string{"internal/cli/command", "internal/cli/probecmd", "internal/cli/program", "internal/descriptors"}},
	"examples/quickstart": {},
	"test/verify":         {},
	"test/soak":           {ours: []string{"plugin"}, others: []string{"google.golang.org/grpc", "golang.org/x/sys"}},
}

func TestImportsAreAllowed(t *testing.T) {
	atRoot(t)
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(file, d)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || path.Dir(file) == "." {
			return nil
		}
		seen[packageOf(file)] = true
		checkImports(t, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range packages {
		if !seen[name] {
			t.Errorf("%s is listed here and has no Go files", name)
		}
	}
}

// heavy are packages that a program links only if it asks for what they do. A name of a module
// stands for all of its packages.
var heavy = []string{"k8s.io", "sigs.k8s.io", "google.golang.org/grpc", "github.com/prometheus/client_golang", "net/http"}

// links lists packages for programs that embed prober, and which of the heavy ones each links,
// directly or not.
var links = map[string][]string{
	"probe":                      nil,
	"core/results":               nil,
	"core/worker":                nil,
	"core/group":                 nil,
	"core/declared":              {"go.yaml.in/yaml", "k8s.io", "sigs.k8s.io", "net/http"}, // as the API types do
	"core/manager":               {"go.yaml.in/yaml", "k8s.io", "sigs.k8s.io", "net/http"},
	"handlers":                   nil,
	"handlers/builtin/execprobe": nil,
	"handlers/builtin/httpprobe": {"net/http"},
	"handlers/builtin/tcpprobe":  nil,
	"handlers/builtin/grpcprobe": {"google.golang.org/grpc", "net/http"}, // as grpc-go does
	"handlers/builtin":           {"google.golang.org/grpc", "net/http"},
}

func TestEmbeddersLinkOnlyWhatTheyUse(t *testing.T) {
	atRoot(t)
	names := slices.Sorted(maps.Keys(links))
	args := []string{"list", "-f", `{{.ImportPath}} {{join .Deps " "}}`}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(names) {
		t.Fatalf("%d packages, want %d:\n%s", len(lines), len(names), out)
	}
	for _, line := range lines {
		deps := strings.Fields(line)
		name := strings.TrimPrefix(deps[0], module+"/")
		for _, h := range heavy {
			found := slices.ContainsFunc(deps[1:], func(d string) bool {
				return d == h || strings.Contains(h, ".") && strings.HasPrefix(d, h+"/")
			})
			if allowed := slices.Contains(links[name], h); found != allowed {
				t.Errorf("%s links %s: %t, want %t", name, h, found, allowed)
			}
		}
	}
}

// clusterPackages link a client of Kubernetes. Nothing else does but the command line.
var clusterPackages = []string{"pods/kube", "pods/kube/*", "internal/cli", "internal/cli/clientcmd", "internal/cli/nodes", "internal/cli/clitest", "internal/referencedoc", "internal/release", "cmd/prober"}

func TestOnlyTheNodeAgentLinksClientGo(t *testing.T) {
	atRoot(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(line)
		links := slices.ContainsFunc(deps[1:], func(d string) bool {
			return d == "k8s.io/client-go/rest" || d == "k8s.io/client-go/kubernetes" || strings.HasPrefix(d, "k8s.io/client-go/tools/")
		})
		if !links {
			continue
		}
		found++
		if !allowed(deps[0], clusterPackages, nil) {
			t.Errorf("%s links a client of Kubernetes", deps[0])
		}
	}
	if found < 3 {
		t.Errorf("%d packages link a client of Kubernetes", found)
	}
}

// enter skips folders that hold no packages of this module.
func enter(dir string, d fs.DirEntry) error {
	switch name := d.Name(); {
	case dir == ".":
		return nil
	case strings.HasPrefix(name, "."), name == "testdata", name == "bin":
		return fs.SkipDir
	}
	if mods, _ := filepath.Glob(filepath.Join(dir, "go.mod")); len(mods) > 0 {
		return fs.SkipDir // a module of its own
	}
	return nil
}

func packageOf(file string) string { return filepath.ToSlash(filepath.Dir(file)) }

func checkImports(t *testing.T, file string) {
	rules, ok := packages[packageOf(file)]
	if !ok {
		t.Errorf("%s: the package %q is not in the table of arch_test.go", file, packageOf(file))
		return
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	for _, spec := range parsed.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if !allowed(name, rules.ours, rules.others) {
			t.Errorf("%s: may not import %s", file, name)
		}
	}
}

func allowed(name string, ours, others []string) bool {
	if name == module {
		return slices.Contains(ours, ".")
	}
	if own, ok := strings.CutPrefix(name, module+"/"); ok {
		return slices.ContainsFunc(ours, func(o string) bool {
			if below, ok := strings.CutSuffix(o, "/*"); ok {
				return strings.HasPrefix(own, below+"/")
			}
			return own == o
		})
	}
	first, _, _ := strings.Cut(name, "/")
	if !strings.Contains(first, ".") {
		return true // standard library
	}
	return slices.ContainsFunc(others, func(o string) bool { return name == o || strings.HasPrefix(name, o+"/") })
}

// maxLines is the most lines of a function.
const maxLines = 60

func TestFunctionsAreShort(t *testing.T) {
	atRoot(t)
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(file, d)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(parsed) {
			return err
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; lines > maxLines {
				t.Errorf("%s: %s has %d lines, more than %d", fset.Position(f.Pos()), f.Name.Name, lines, maxLines)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
