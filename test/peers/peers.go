package main

import "regexp"

// peer is a project whose tests run on core/endpoint.
type peer struct {
	name     string                  // also the folder of the adapter
	module   string                  // required by go.mod
	folder   string                  // of its package within the module
	replaces map[string]replacements // by file
	tests    int                     // number of its tests on Linux; a test with subtests counts by them
	// uses matches the tests that use core/endpoint. The others run only code that stays the peer's.
	uses *regexp.Regexp
	// excepted are the tests that fail, with the reason.
	excepted map[string]string
}

// replacements are removed from a file, because the adapter has them, or nothing uses them any more.
type replacements struct {
	declarations []string // "name" or "Type.method"
	imports      []string
}

var peers = []peer{
	{
		name: "traefik", module: "github.com/traefik/traefik/v3", folder: "pkg/healthcheck", // MIT
		replaces: map[string]replacements{
			"healthcheck.go":     {declarations: []string{"ServiceHealthChecker.Launch", "ServiceHealthChecker.healthcheck"}},
			"healthcheck_tcp.go": {declarations: []string{"ServiceTCPHealthChecker.Launch", "ServiceTCPHealthChecker.healthcheck"}},
		},
		tests: 54,
		uses:  regexp.MustCompile(`^Test(Service(TCP)?HealthChecker_Launch|DifferentIntervals|ServiceTCPHealthChecker_differentIntervals)$`),
	},
	{
		name: "consul", module: "github.com/hashicorp/consul", folder: "agent/checks", // MPL-2.0, up to v1.16
		replaces: map[string]replacements{
			"check.go": {
				declarations: []string{
					"CheckMonitor.run", "CheckHTTP.run", "CheckH2PING.run", "CheckTCP.run", "CheckUDP.run",
					"CheckDocker.run", "CheckGRPC.run", "CheckOSService.run",
					"CheckTTL", "CheckTTL.Start", "CheckTTL.Stop", "CheckTTL.run", "CheckTTL.getExpiredOutput", "CheckTTL.SetStatus",
					"StatusHandler", "NewStatusHandler", "StatusHandler.updateCheck",
				},
				imports: []string{"github.com/hashicorp/consul/lib"},
			},
			"alias.go": {declarations: []string{"CheckAlias.processChecks"}, imports: []string{"strings"}},
		},
		tests: 97,
		uses: regexp.MustCompile(`^Test(CheckMonitor_.*|CheckTTL|CheckHTTP|CheckHTTP_(Proxied|NotProxied|DisableRedirects|TLS_.*)|CheckHTTPTimeout|` +
			`CheckHTTPBody|CheckMaxOutputSize|StatusHandler.*|CheckTCP.*|CheckUDP.*|CheckH2.*|Check_Docker|CheckAlias_.*|GRPC_.*)$`),
	},
	{
		name: "caddy", module: "github.com/caddyserver/caddy/v2", folder: "modules/caddyhttp/reverseproxy", // Apache-2.0
		replaces: map[string]replacements{
			"healthchecks.go": {declarations: []string{"Handler.countFailure"}},
			"hosts.go":        {declarations: []string{"Host.Fails", "Upstream.Healthy"}},
		},
		tests: 101,
		uses: regexp.MustCompile(`^Test(CountFailure.*|StaticUpstream.*|DynamicUpstream(Healthy|Unhealthy|FailCount|Recovery).*|` +
			`DynamicHostHealthyConsultsFails|FillDynamicHostPreservesFailCount|AdminUpstreamsReportsFailCounts)$`),
		excepted: map[string]string{
			"TestAdminUpstreamsReportsFailCounts":   callsCountFail,
			"TestDynamicHostHealthyConsultsFails":   callsCountFail,
			"TestFillDynamicHostPreservesFailCount": callsCountFail,
		},
	},
}

const callsCountFail = "calls Host.countFail, which knows no MaxFails and no FailDuration"
