// Package plugintest runs the test cases of a plugin, as `prober plugin test` does. The guest is
// real, and its network is simulated. Peers follow scripts, randomness has a seed, and time
// passes only while the guest waits: a target that never answers takes no real time.
//
// [Load] reads a *_test.yaml file, [Run] runs it, [Write] reports. [Native] is the network of a
// case for a plugin that runs without a sandbox, and a [Recorder] records a real target for a
// case to replay.
//
// # The code
//
// Read run.go, then guest.go: one attempt of a case. process.go and internal/loopback do the same
// for a process. internal/testfile reads cases and compares answers, internal/peer simulates the
// network, and internal/clock its time.
//
// A new kind of peers is needed only for protocols that a script of net cannot play. Write a folder below
// internal/peer whose Protocol implements [peer.Protocol], and append it to the list in
// internal/testfile/host.go. It then has a field of its own below host, is played for guests and
// for processes, recorded and reported. CONTRIBUTING.md lists the documents and tests to change.
//
// # The file
//
// Unknown fields are errors. An error names the file, the line and the field. Durations are 50ms,
// 1s or 1m30s.
//
//	apiVersion: prober.dev/v1
//	kind: PluginTest
//	plugin: ./pgready.wasm                 # beside this file; or a process: see below
//	defaults: {timeout: 1s, grants: [target]}
//	cases:
//	- name: server accepts                 # unique in the file
//	  timeout: 1s                          # of the attempt
//	  seed: 7                              # of the random bytes of a guest
//	  time: 2026-01-31T12:00:00Z           # of the clock of a guest, at the start
//	  grants: [target, kv]                 # in place of the defaults
//	  accepts: [cut and close]             # see Hostile peers
//	  request: {…}                         # the request to the plugin
//	  host: {…}                            # the simulated network
//	  replay: testdata/session.yaml        # in place of host: see below
//	  want: {…}                            # the wanted answer
//
// A request has these fields. None is required:
//
//	kind: readiness                        # liveness, readiness or startup
//	attempt: 1
//	lastResult: failure                    # of the previous tick
//	target: {host: db.internal, port: 5432}   # or {unix: /run/db.sock}
//	config: {user: probe}
//	podIP: 10.0.0.7
//	pod: {namespace: shop, name: db-0, uid: u1, labels: {app: db}}
//	container: {name: db}
//
// # The simulated network
//
// All of host is optional:
//
//	names: {db.internal: [10.0.0.1, "fd00::1"], gone.internal: []}
//	kv: {failures: "2"}                    # the key-value store before the attempt
//	net: […]                               # peers that can be dialled
//	http: […]                              # requests over prober_v1_http, and their answers
//	dns: […]                               # look-ups over prober_v1_dns, and their answers
//	icmp: […]                              # echo requests over prober_v1_icmp, and their replies
//
// A name without addresses does not exist. The target, and every host that net, http,
// dns or icmp name, has an address without being listed.
//
// A case fails if the plugin dials, requests or looks up something for which the case has no
// peer, exchange or record. It fails if the plugin leaves one of them unused, or if one call of the
// guest runs for 20 s of real time. Calls of a guest after its deadline reach no peer.
//
// The random bytes and the day of the clock depend on the position of a case in its file, or on the
// fields seed and time of the case. Where the bytes of a script depend on them, set these fields, or let
// the script capture the bytes.
//
// # Peers
//
//	net:
//	- dial: tcp://db.internal:5432         # or udp://, tls://, unix:///path
//	  latency: 20ms                        # of the dial, and of each thing sent
//	  tls: {names: [db.internal], notBefore: -24h, notAfter: 720h, error: unknown authority}
//	  script:                              # or behaviour: see Faults
//	  - recv: {text: "HELO\r\n"}           # waits for these bytes
//	  - send: {text: "250 hello\r\n"}
//	  - wait: 50ms                         # before it goes on
//	  - handshake: {}                      # waits for TLS to be made
//	  - send: {hex: "00 ff", every: 10ms}  # byte by byte
//	  - close: {}                          # or reset: {}
//
// If several peers have one address, each serves one connection, in order. The last one also
// serves all further connections. If a peer does not expect the first bytes of a connection, a peer
// that expects them takes it over, so connections may come in any order. recv does not depend on
// the sizes of the plugin's writes. It takes one of these:
//
//	recv: {text: "PING\r\n"}               # exactly
//	recv: {hex: "0000 0008 04d2 162f"}     # exactly; spaces do not count
//	recv: {prefix: "GET /"}                # all that has come, if it begins so; or {prefix: {hex: …}}
//	recv: {regex: "EHLO .*\r\n"}           # the part that matches, from the first byte on
//	recv: {http: {method: GET, url: /x}}   # a request of HTTP/1: see match below
//	recv: any                              # all that has come, at least one byte; or {any: true}
//	recv: {length: 12}                     # this number of bytes
//	recv: {until: "\r\n"}                  # up to these bytes, and them; or {until: {hex: …}}
//	recv: {lengthPrefix: {bytes: 4}}       # a message with its length: see docs/plugins/test-cases.md
//
// Beside it, `as` gives the received bytes a name; named groups of a regex are names, too. A later
// step uses a name as ${name} in text and hex. ${…} is an expression, such as ${u16(size(rest))},
// and let computes values from expressions. docs/plugins/test-cases.md lists the functions:
//
//	script:
//	- recv: {hex: "0001 0000 2112a442"}
//	- recv: {length: 12, as: id}
//	- let: {address: {hex: "0020 0008 0001 a147 e112a643"}}
//	- send: {hex: "0101 ${u16(size(address))} 2112a442 ${id} ${address}"}
//
// In place of a script, a process may play a peer, in real time. It is killed with its group after the
// attempt, and only started if [Config.Commands] is set. A session cannot have one:
//
//	# in net:
//	- dial: tcp://db.internal:5432
//	  peer: {command: ./fake.py}           # its standard input and output are the connection
//	- dial: udp://db.internal:5432
//	  peer: {command: [python3, fake.py], listens: true}   # at the port $PROBER_PEER_PORT
//
// TLS is simulated: a handshake sends no bytes, and scripts see the plain text. A peer at tls:// has
// a valid certificate for its host. The field tls changes this certificate. It also gives one to a
// peer that starts TLS later. Times are relative to now, names are the DNS names of the
// certificate, and an error fails the handshake.
//
// # HTTP
//
//	http:
//	- match:                               # every field is optional
//	    method: POST
//	    url: /v1/items?x=1                 # the path with its query, or the whole URL
//	    headers: {accept: application/json}
//	    body: {json: {id: 1}}              # the same value; or a string, or hex
//	  reply:
//	    status: 200                        # the default
//	    headers: {content-type: application/json, set-cookie: [a=1, b=2]}
//	    body: '{"ok":true}'                # or {json: {ok: true}}, {hex: 00ff}
//	    latency: 20ms                      # until the header of the answer arrives
//	    every: 10ms                        # from byte to byte of the body
//	    end: reset                         # or half-open: in place of the end of the body
//	  tls: {notAfter: -1h}                 # where the URL is https; valid if absent
//	- match: {url: "/^https://api.internal/v[12]//"}
//	  behaviour: refuse                    # beside it, reply may have a latency
//
// The first matching exchange that has not answered yet answers a request. If all have, the last
// matching one does. A string matches exactly, or as a regular expression between slashes. A path
// that begins and ends with a slash is taken for a regular expression: write /^\/a\/$/. Headers
// that match does not name may have any value. A redirect is a reply with a location; the request
// that follows needs an exchange of its own.
//
// # DNS
//
//	dns:
//	- name: db.internal
//	  type: A                              # the default; AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT
//	  answers: [10.0.0.1, {data: 10.0.0.2, ttl: 5}]
//	  latency: 3ms
//	- {name: mail.internal, type: MX, answers: [10 mx1.internal]}
//	- name: www.internal
//	  answers: [{type: CNAME, data: web.internal}, {name: web.internal, data: 10.0.0.3}]
//	- {name: gone.internal, rcode: NXDOMAIN}   # SERVFAIL, REFUSED, FORMERR, NOTIMP
//	- {name: slow.internal, behaviour: timeout}
//	- {name: db.internal, server: target, answers: [10.0.0.9]}
//
// The data of an answer has the form of a zone file. A record without a server answers at every
// server; server is target, or host:port. If several records are for one question, each answers
// once, in order, and the last one answers from then on. A retry after a missing answer counts as a
// question. Records of the types A and AAAA also give their name addresses for dials. A name with
// addresses needs no record.
//
// # ICMP
//
//	icmp:
//	- latency: 20ms                        # until the reply of the target
//	  hopLimit: 57                         # of the reply; 64 by default
//	  request: {payload: 1400, dontFragment: true}   # what the request must have; hopLimit, sourceAddress
//	- {host: db.internal, behaviour: timeout}   # or refuse
//	- {host: 10.0.0.9, error: "10.0.0.1 says: host unreachable"}
//
// If a host has several replies, each answers one request, and the last one all further requests.
// An error is the text of an ICMP error message that comes in place of the reply. These peers have
// no other behaviours. A process skips cases with them.
//
// # Faults
//
//	refuse      the connection is refused
//	timeout     a black hole: no dial, datagram or request is ever answered
//	reset       the connection is made, and reset at once
//	half-open   the connection is made, and nothing is ever received
//	garbage     everything is answered with random bytes
//	truncate    of dns: the answer does not fit UDP, and is sent over TCP
//
// For a slow peer use latency, every or wait.
//
// # Expected answers
//
//	want:
//	  result: success                      # warning, failure, unknown, error(reason)
//	  message: /accepting/                 # exactly, or as a regular expression
//	  metrics: {connect_seconds: {max: 0.1}, replicas: 3}   # min, max, eq, or the value
//	  denied: [/10.0.0.9:80/]              # the dials that are denied, in order; [] for none
//	  virtualTime: {max: 60ms}             # that passed for the plugin
//	  memory: {max: 8Mi}                   # of the guest
//	  kv: {failures: "3"}                  # all that the probe keeps then
//
// Only result is required; a replay requires nothing. A reason is one of package probe, or config
// if the plugin refuses its config. [Update] replaces the wanted result and message by the actual
// ones, if they are plain scalars on one line.
//
// # Sessions
//
// A [Recorder] writes files of the kind PluginSession, which `replay` names. They have
// apiVersion, kind, timeout, seed, time, grants, request, host and want, in the form of a case, and
// may be edited. A replay has the host of the session. The case may override its timeout, seed, time and
// grants, and each field of request and want.
//
// A replay compares the meaning of messages: HTTP requests by method, URL, body and most headers, in
// any order; look-ups by their question; bytes in any number of pieces; connections in any order.
// A guest gets the recorded random bytes again. Those that the peer sent back are captured as nonce1,
// nonce2 and so on. If other bytes differ each time, change their step to `recv: any`. Each character of a
// secret is replaced by x, in the config and in the recorded bytes. Each digit of a secret number
// becomes 1.
//
// # Conformance
//
// In addition to its cases, every plugin must pass these checks:
//
//   - A config of any form gives a message, no trap, and an end.
//   - The deadline is obeyed when every peer is a black hole.
//   - With everything granted, nothing is denied because the manifest does not request it, but
//     what a case wants denied.
//   - The answers are the same in the isolations reset and fresh.
//   - The memory does not grow over 10,000 calls, or as many as [Config.Patience] allows.
//   - Peers that break the protocol cause no success and no trap: see Hostile peers.
//
// With [Config.PassedDir], a check that passed is left out until its inputs change.
//
// # Hostile peers
//
// This check derives variants from each passing case, and runs as many as [Config.Patience] allows, at most 2,000
// of a case. The peers of net stop at each byte: they close, reset the connection, or stay silent. They answer
// byte by byte, or as servers of other protocols, with garbage, or with other lengths, numbers and lines. The
// servers of http have other statuses, headers and bodies, and servers of dns other answers. [Fuzz] combines such
// changes at random.
//
// A variant fails if the guest traps, exhausts its memory, breaks the contract, exceeds the deadline or never
// ends. It fails if the memory or the fuel of the guest grow much more than the received bytes explain, and if a
// metric or the message has a NaN. Variants of a case with success have further rules:
//
//   - Byte by byte, with pauses, or at once: the result must be the same. This also holds for a warning.
//   - A case needs the bytes up to the first point at which it succeeds though its peer falls silent there. If
//     fewer bytes come, or others, the result must not be success. The close of a connection is excepted if the
//     case needs this close. What comes after the last answer that matters is not needed, such as a reply to QUIT.
//   - A status of 400 or more must not be success if the status of the case is below 300. A body that is no JSON
//     must not be success if the body of the case is JSON, and an empty body is no success.
//
// A case, or the defaults, may list faults after which success is right: accepts has any of cut and close, cut
// and reset, another answer, another body, status, rcode, no answer, byte by byte, pauses, at once, truncated.
//
// # Processes
//
// The plugin of a file may be a process: prober-plugin-NAME, with its manifest beside it. It is
// started once, and its peers listen on the loopback interface, in real time. The target in its
// request is a loopback address. If the config has the target's HOST:PORT, also within a URL, it is
// replaced by this address. In the output of the process, loopback addresses are replaced by the
// addresses of the case. A timeout behaves as half-open on systems other than Linux, and at unix
// sockets. Bounds of virtualTime, of metrics in seconds and of durations in a message are wider by
// one second.
//
// A process that is built with sdk/process asks the test host, the guide, where to dial and which
// certificates to trust. With Dial, StartTLS, HTTP and LookupDNS of the SDK it reaches every peer,
// exchange and record of the case. Without the SDK it can only dial the target, without TLS.
//
// The plugin of a file may also be a plugin.yaml with the runtime nagios: each attempt runs its
// command, which is beside it or in one of [Config.Folders]. Such a process does not ask the guide,
// and has no kv.
//
// These cases are left out, and the report says why:
//
//   - cases about denials, or about how the sandbox ends a guest;
//   - cases in which one port is open and closed, is of net and of http, or shows two certificates;
//   - of a process that does not ask a guide: cases with peers or exchanges that are not at the
//     target or have TLS, and cases with dns.
//
// The memory of a process is not compared. Only the checks of the config and of the deadline run.
//
// [peer.Protocol]: https://pkg.go.dev/github.com/daeace23/prober/plugin/plugintest/internal/peer#Protocol
package plugintest
