// Package plugintest runs the test cases of a plugin, as `prober plugin test` does:
// the guest is real, and all that it can see of the world is played. Peers follow
// scripts, randomness has a seed, and time passes only while the guest waits, so that
// a target which never answers takes a test no time at all.
//
// [Load] reads a *_test.yaml file, [Run] carries it out, [Write] reports. [Native] plays
// the world of a case for a plugin that runs without a sandbox, and a [Recorder] writes
// down the real world for a case to replay.
//
// # The file
//
// Unknown fields are errors, told by file, line and path. Durations are 50ms, 1s or 1m30s.
//
//	apiVersion: prober.dev/v1
//	kind: PluginTest
//	plugin: ./pgready.wasm                 # beside this file; or a process: see below
//	defaults: {timeout: 1s, grants: [target]}
//	cases:
//	- name: server accepts                 # no two are the same
//	  timeout: 1s                          # of the attempt
//	  grants: [target, kv]                 # in place of the defaults
//	  request: {…}                         # what the plugin is asked
//	  host: {…}                            # what it sees of the world
//	  replay: testdata/session.yaml        # in place of host: see below
//	  want: {…}                            # what it must answer
//
// A request has these fields, none of which is required:
//
//	kind: readiness                        # liveness, readiness or startup
//	attempt: 1
//	lastResult: failure                    # of the tick before
//	target: {host: db.internal, port: 5432}   # or {unix: /run/db.sock}
//	config: {user: probe}
//	podIP: 10.0.0.7
//	pod: {namespace: shop, name: db-0, uid: u1, labels: {app: db}}
//	container: {name: db}
//
// # What the plugin sees
//
// All of host is optional:
//
//	names: {db.internal: [10.0.0.1, "fd00::1"], gone.internal: []}
//	kv: {failures: "2"}                    # what the probe has kept
//	net: […]                               # peers that can be dialled
//	http: […]                              # requests over prober_v1_http, and their answers
//	dns: […]                               # look-ups over prober_v1_dns, and their answers
//
// A name without addresses does not exist. The target, and every host that net, http or
// dns name, has an address without being listed.
//
// What the plugin dials, asks or looks up and the case does not foresee fails the case,
// and so does a peer, an exchange or a record that nobody came for. So does a guest that runs
// for 20 s of real time without an end. What it does after its deadline reaches nobody.
//
// Randomness is seeded with the place of a case in its file, and its clock begins on a day of
// its own: where bytes of a script depend on them, new cases go to the end of the file.
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
// Of several peers at one address each serves one connection, the first one first, and
// the last one all further ones too. A connection whose beginning does not fit its peer
// goes to one that it fits, so that connections may come in any order. What is written in
// several pieces counts as one. recv takes one of these:
//
//	recv: {text: "PING\r\n"}               # exactly
//	recv: {hex: "0000 0008 04d2 162f"}     # exactly; spaces do not count
//	recv: {prefix: "GET /"}                # whatever begins so, all that has come; or {prefix: {hex: …}}
//	recv: {regex: "EHLO .*\r\n"}           # from the beginning of what has come on, as much as it matches
//	recv: {http: {method: GET, url: /x}}   # a request of HTTP/1 that means this: see match below
//	recv: any                              # something, all that has come
//
// TLS is played: no bytes flow in a handshake, and scripts see what is inside. A peer at
// tls:// has a certificate of its host that is fine; tls changes it, and gives one to a
// peer of which TLS is asked for later. Times are from now on, names are those of the
// certificate, and with an error the handshake fails.
//
// # HTTP
//
//	http:
//	- match:                               # all of it optional
//	    method: POST
//	    url: /v1/items?x=1                 # the path with its query, or the whole URL
//	    headers: {accept: application/json}
//	    body: {json: {id: 1}}              # the same value; or a text, or hex
//	  reply:
//	    status: 200                        # the default
//	    headers: {content-type: application/json, set-cookie: [a=1, b=2]}
//	    body: '{"ok":true}'                # or {json: {ok: true}}, {hex: 00ff}
//	    latency: 20ms                      # until the head of the answer is there
//	    every: 10ms                        # from byte to byte of the body
//	    end: reset                         # or half-open: in place of the end of the body
//	  tls: {notAfter: -1h}                 # where the URL is https; fine if absent
//	- match: {url: "/^https://api.internal/v[12]//"}
//	  behaviour: refuse                    # may have the latency of a reply
//
// A request gets the first exchange that matches and has answered none; of those that
// have, the last one that matches. Texts match exactly, or as a regular expression
// between slashes, which a path that ends with a slash is not: write /^\/a\/$/. Headers
// that match does not name may be anything. A redirect is a reply with a location; where
// it leads is authorised, and asks for an exchange of its own.
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
// The data of an answer is as in a zone file. Without a server a record answers at every
// one; server is target, or host:port. Of several records for one question each answers
// once, and the last one from then on; whoever gets no answer asks again, which counts.
// Records of the types A and AAAA give their name addresses for dials too, and names
// that have addresses are looked up without a record.
//
// # Faults
//
//	refuse      nobody listens
//	timeout     a black hole: nothing ever comes back
//	reset       the connection is made, and reset at once
//	half-open   the connection is made, and nothing ever comes back
//	garbage     random bytes answer whatever comes
//	truncate    of dns: the answer does not fit UDP, and is to be had over TCP
//
// A slow peer is one that sends every so often, or waits.
//
// # What is wanted
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
// Only result is required, and in a replay nothing is. A reason is one of package probe, or
// config where the plugin does not take its config. [Update] writes the result and the
// message that came, where they stand plain and on one line.
//
// # Sessions
//
// A [Recorder] writes files of the kind PluginSession, which `replay` names: they have
// apiVersion, kind, timeout, grants, request, host and want, of the same form as a case,
// and are there to be read and changed. The world of a replay is that of the session; its
// timeout, grants and each field of its request and of want that the case has win; without
// a result it is the session's that is wanted.
//
// A session is matched by meaning: requests of HTTP by method, URL, body and the headers
// that count, in any order; look-ups by their question; bytes however they are cut into
// pieces; connections in any order. What is another each time, as a nonce, is to be
// changed to `recv: any` by hand. What was found to be secret is replaced by as many x, in
// the config and in what was sent.
//
// # Conformance
//
// Beside its cases every plugin has to pass some checks: a config of any form gives a
// message and no trap, and comes to an end; the deadline is obeyed when whatever is dialled, asked or looked up
// is a black hole; with everything granted, nothing is denied for want of a request in the
// manifest, but what a case wants denied; the cases end alike with the isolations reset and
// fresh; and the memory does not grow over 10,000 calls, or as many as [Config.Patience]
// allows, which the report says.
//
// # Processes
//
// The plugin of a file may be a process: prober-plugin-NAME, with its manifest beside it. It
// is started once, and its world is played on sockets of the loopback interface, in real
// time: the target that it is told, and what of the config is the target's HOST:PORT or a URL
// there, is where they are, and where it speaks of that address the target's is read. A
// black hole is one under Linux, and half-open elsewhere and at sockets of files. What is
// said of virtualTime, of metrics in seconds and of durations in a message has a second to
// spare then.
//
// A process that is built with sdk/process asks where whatever it dials is, and is told whom
// to trust: what it does by the SDK's Dial, StartTLS, HTTP and LookupDNS reaches every peer,
// exchange and record of the case, with certificates that are made for it. What it dials by
// itself has to be at the target, and without TLS.
//
// The plugin of a file may be a plugin.yaml, too, whose runtime is nagios: each attempt runs
// its command, which is beside it or in one of [Config.Folders]. It is a process that does not
// ask, and has no kv.
//
// A case is left out, and the report says why, where it is about denials, where a port would
// have to be open and not, be of net and of http, or show two certificates, and, of a process
// that does not ask, where its peers or exchanges are not at the target or speak TLS, and
// where it is about dns. The memory of a process is not looked at. Of the checks those of the
// config and of the deadline are run.
package plugintest
