/* Options sets every option of every host function, and reads what their results repeat. */
#include "prober.h"

static char buf[8192];

static int ask(const prober_tls *tls) {
	prober_http_request r = {
		.url = "https://db.internal/x",
		.method = "PUT",
		.headers = (prober_pair[]){{"X-Asked", "a \"b\""}, {0}},
		.redirects = 2,
		.timeout_ms = 250,
		.tls = *tls,
		.http2 = true,
		.decompress = "gzip",
		.ip_family = "4,6",
		.source_address = "10.0.0.1",
		.proxy = "http://proxy:3128",
		.proxy_headers = (prober_pair[]){{"X-Team", "shop"}, {0}},
	};
	return prober_http_send(&r, "\0\xff" "a", 3);
}

/* written writes the time of the config, and reports whether it is read again. */
static prober_result written(int64_t at) {
	char basic[17], rfc[21];
	int64_t again = 0;
	prober_basic_time(at, basic, sizeof basic);
	size_t n = prober_rfc3339(at, rfc, sizeof rfc);
	bool read = prober_parse_time(rfc, n, &again) && again == at;
	prober_progress("%s %s %s", basic, rfc, read ? "true" : "false");
	return prober_error("a time");
}

PROBER_EXPORT(probe)
prober_result probe(void) {
	int64_t given = INT64_MIN;
	if (prober_config("at", buf, sizeof buf) > 0) return prober_config_int("at", &given) < 0 ? PROBER_ERROR : written(given);
	prober_progress("%s", "working");
	prober_tls tls = {.server_name = "d b", .insecure = true, .ca = "PEM\n", .credentials = "own", .min_version = "TLS12", .max_version = "TLS13"};
	int answer = ask(&tls);
	tls.alpn = (const char *const[]){"h2", "http/1.1", 0};
	int conn = prober_dial_url("tcp://db.internal:5432", PROBER_UNTIL_DEADLINE);
	if (answer < 0 || conn < 0 || prober_starttls_with(conn, &tls) < 0) return prober_error("%s", prober_error_text());
	prober_dial_options options = {.ip_family = "6", .source_address = "fd00::1", .tls = tls};
	if (prober_dial_with("tls://db.internal:5432", &options, PROBER_UNTIL_DEADLINE) < 0) return prober_error("%s", prober_error_text());
	prober_dns_request question = {.name = "db.internal", .type = "SRV", .server = "target"};
	prober_echo_request ping = {.host = "db.internal", .ip_family = "6,4", .source_address = "10.0.0.1", .payload = 9, .hop_limit = 7, .dont_fragment = true};
	if (prober_dns_ask(&question, buf, sizeof buf) < 0 || prober_ping(&ping, buf, sizeof buf) < 0 || prober_kv_set("key", "\0\xff", 2) < 0)
		return prober_error("%s", prober_error_text());
	bool same = prober_kv_get("key", buf, sizeof buf) == 2 && memcmp(buf, "\0\xff", 2) == 0;
	int n = prober_request(buf, sizeof buf);
	if (!prober_has_feature(buf, (size_t)n, "kv") || prober_has_feature(buf, (size_t)n, "dns")) return prober_error("the features differ");
	int64_t at = 0, none = 0;
	bool read = prober_parse_time("2006-01-02T17:04:05.5+02:00", 27, &at) && at == 1136214245 && !prober_parse_time("2006-02-29T17:04:05Z", 20, &none) &&
	            !prober_parse_time("2006-01-02T17:04:05+24:00", 25, &none) && !prober_parse_time("2006-01-02T17:04:05+00:60", 25, &none) &&
	            prober_parse_time("2006-01-02T17:04:05-23:59", 25, &none) && none == 1136307785;
	char basic[17], rfc[21], a[64], b[64], one[64], text[512];
	prober_basic_time(at, basic, sizeof basic);
	prober_rfc3339(at, rfc, sizeof rfc);
	n = prober_http_head(answer, buf, sizeof buf);
	if (prober_http_header(buf, (size_t)n, "set-cookie", 0, a, sizeof a) < 0 || prober_http_header(buf, (size_t)n, "set-cookie", 1, b, sizeof b) < 0 ||
	    prober_http_header(buf, (size_t)n, "set-cookie", 2, one, sizeof one) != -PROBER_ENOENT || prober_http_header(buf, (size_t)n, "x-one", 0, one, sizeof one) < 0)
		return prober_error("the headers differ");
	prober_text t = prober_doc();
	prober_format(text, sizeof text, "%s|%s %s %s %s %s %s", a, b, one, basic, rfc, read ? "true" : "false", same ? "true" : "false");
	prober_add_field(&t, "message", text);
	prober_add_name(&t, "metrics");
	static const char metrics[] = "[{\"name\":\"seconds\",\"unit\":\"s\",\"value\":0.5,\"labels\":{\"role\":\"main\"}}],\"details\":{\"a\":1}";
	prober_add(&t, metrics, sizeof metrics - 1);
	prober_add_field(&t, "reason", "body");
	return prober_end(&t) && prober_result_json(t.buf, t.n) >= 0 ? PROBER_FAILURE : PROBER_ERROR;
}
