/* Everything uses all of prober.h but DNS and ICMP. The config's "do" says what an attempt is about. */
#include "prober.h"

static char buf[8192];

static prober_result request(void) {
	char kind[16], port[8], app[32] = "";
	int n = prober_request(buf, sizeof buf);
	if (n < 0 || n > (int)sizeof buf) return prober_error("request: %d", n);
	prober_json(buf, (size_t)n, "probe.kind", kind, sizeof kind);
	prober_json(buf, (size_t)n, "target.port", port, sizeof port);
	prober_json(buf, (size_t)n, "config.text", app, sizeof app);
	return prober_warning("kind %s, port %s, text %s", kind, port, app);
}

static prober_result config(void) {
	char text[32] = "none";
	double number = 0;
	int64_t whole = 0, millis = 0;
	bool truth = false;
	prober_config("text", text, sizeof text);
	if (prober_config_double("number", &number) < 0 || prober_config_int("list.1", &whole) < 0 ||
	    prober_config_bool("truth", &truth) < 0 || prober_config_millis("time", &millis) < 0)
		return PROBER_ERROR;
	prober_log(PROBER_INFO, "the config is read");
	return prober_unknown("text %s, number %.2f, whole %lld, truth %s, millis %lld", text, number, (long long)whole,
	                      truth ? "true" : "false", (long long)millis);
}

static prober_result net(void) {
	char network[8];
	int32_t conn = prober_dial_url("", 1000);
	if (conn < 0) return prober_failure("%s", prober_error_text());
	if (prober_poll(&conn, 1, PROBER_UNTIL_DEADLINE) != 0) return prober_failure("poll: %s", prober_error_text());
	int n = prober_read_full(conn, buf, 4);
	if (n != 4 || prober_write_text(conn, "QUIT\r\n") < 0) return prober_failure("read: %s", prober_error_text());
	char said[5] = {buf[0], buf[1], buf[2], buf[3], 0};
	n = prober_info(conn, buf, sizeof buf);
	prober_json(buf, (size_t)n, "network", network, sizeof network);
	int tls = prober_starttls(conn, "{}");
	prober_close(conn);
	return prober_success("%s says %s; starttls %s", network, said, tls < 0 ? "fails" : "works");
}

static prober_result http(void) {
	char url[128], kind[32] = "";
	prober_config("url", url, sizeof url);
	char req[256];
	prober_format(req, sizeof req, "{\"url\":\"%s\",\"method\":\"POST\",\"headers\":{\"X-Asked\":\"yes\"}}", url);
	int answer = prober_http(req, "ping", 4);
	if (answer < 0) return prober_failure("%s", prober_error_text());
	int status = prober_http_status(answer), n = prober_http_head(answer, buf, sizeof buf);
	prober_json(buf, (size_t)n, "headers.x-answer", kind, sizeof kind);
	n = prober_http_read(answer, buf, sizeof buf);
	prober_http_close(answer);
	return prober_success("%d %s %.*s", status, kind, n, buf);
}

static prober_result kv(void) {
	if (prober_kv_set("key", "value", 5) < 0 || prober_kv_set("gone", "x", 1) < 0 || prober_kv_delete("gone") < 0)
		return prober_failure("%s", prober_error_text());
	int n = prober_kv_get("key", buf, sizeof buf);
	return prober_success("%.*s, %s", n, buf, prober_kv_get("gone", buf, 8) == -PROBER_ENOENT ? "gone" : "there");
}

static prober_result json(void) {
	static const char doc[] = "{\"message\":\"in full\",\"metrics\":[{\"name\":\"n\",\"value\":1,\"labels\":{\"a\":\"b\"}}]}";
	return prober_result_json(doc, sizeof doc - 1) < 0 ? prober_error("%s", prober_error_text()) : PROBER_SUCCESS;
}

PROBER_EXPORT(probe)
prober_result probe(void) {
	static const struct {
		const char *name;
		prober_result (*run)(void);
	} all[] = {{"request", request}, {"config", config}, {"net", net}, {"http", http}, {"kv", kv}, {"json", json}};
	char what[16] = "";
	int n = prober_config("do", what, sizeof what);
	for (size_t i = 0; n > 0 && i < sizeof all / sizeof *all; i++)
		if (prober_equal(what, (size_t)n, all[i].name)) return all[i].run();
	prober_metric("never", "", 0);
	return prober_error("nothing to do after %d ms", (int)prober_deadline_ms());
}

PROBER_EXPORT(validate_config)
int32_t validate_config(void) {
	char what[16] = "";
	int n = prober_config("do", what, sizeof what);
	return n > 0 && prober_equal(what, (size_t)n, "evil") ? (int32_t)prober_error("do no evil") : 0;
}
