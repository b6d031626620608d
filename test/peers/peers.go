package main

// peer is a project whose tests run on core/endpoint.
type peer struct {
	name     string                  // also the folder of the adapter
	module   string                  // required by go.mod
	folder   string                  // of its package within the module
	replaces map[string]replacements // by file
	tests    int                     // number on Linux; a test with subtests counts by them
	// kept are the tests that run only code that stays the peer's. They are counted apart.
	kept []string
}

// replacements are removed from a file, because the adapter has them, or nothing uses them any more.
type replacements struct {
	declarations []string // "name" or "Type.method"
	imports      []string
}

var peers = []peer{
	{
		name: "traefik", module: "github.com/traefik/traefik/v3", folder: "pkg/healthcheck", tests: 54, // MIT
		replaces: map[string]replacements{
			"healthcheck.go":     {declarations: []string{"ServiceHealthChecker.Launch", "ServiceHealthChecker.healthcheck"}},
			"healthcheck_tcp.go": {declarations: []string{"ServiceTCPHealthChecker.Launch", "ServiceTCPHealthChecker.healthcheck"}},
		},
		kept: []string{
			"TestNewServiceHealthChecker_durations", "TestNewServiceTCPHealthChecker", // defaults of its options
			"TestServiceHealthChecker_newRequest", "TestServiceHealthChecker_checkHealthHTTP_NotFollowingRedirects", // its requests
			"TestServiceTCPHealthChecker_executeHealthCheck_connection", "TestServiceTCPHealthChecker_executeHealthCheck_payloadHandling",
		},
	},
	{
		name: "consul", module: "github.com/hashicorp/consul", folder: "agent/checks", tests: 97, // MPL-2.0; later releases have another licence
		replaces: map[string]replacements{
			"check.go": {
				declarations: []string{
					"CheckMonitor.run", "CheckHTTP.run", "CheckH2PING.run", "CheckTCP.run", "CheckUDP.run", "CheckDocker.run", "CheckGRPC.run", "CheckOSService.run",
					"CheckTTL", "CheckTTL.Start", "CheckTTL.Stop", "CheckTTL.run", "CheckTTL.getExpiredOutput", "CheckTTL.SetStatus",
					"StatusHandler", "NewStatusHandler", "StatusHandler.updateCheck",
				},
				imports: []string{"github.com/hashicorp/consul/lib"},
			},
			"alias.go": {declarations: []string{"CheckAlias.processChecks"}, imports: []string{"strings"}},
		},
		kept: []string{"TestCheck"}, // its gRPC client
	},
}
