/*
 * Nats connects to a NATS server as a client does: it reads the INFO of the server, starts
 * TLS if the server requires it, logs in and waits for the PONG to a PING. An error of the
 * server is a Failure; a server that is about to shut down is a Warning.
 */
#include "prober.h"

enum { LINE_MAX = 32 << 10, SECRET_MAX = 4 << 10, CA_MAX = 32 << 10, LINES = 100 };

/* config is the config of the probe. An empty string is not set. */
struct config {
	char user[256], password[SECRET_MAX], token[SECRET_MAX], server_name[256], verify[8], ca[CA_MAX];
	bool tls;
};

static struct config config;

static int text(const char *path, char *buf, size_t cap) {
	int n = prober_config(path, buf, cap);
	if (n == -PROBER_ENOENT) *buf = 0;
	if (n < 0 && n != -PROBER_ENOENT) (void)prober_error("config: %s is longer than %zu bytes", path, cap - 1);
	return n == -PROBER_ENOENT ? 0 : n;
}

static bool read_config(struct config *c) {
	if (text("user", c->user, sizeof c->user) < 0 || text("password", c->password, sizeof c->password) < 0) return false;
	if (text("token", c->token, sizeof c->token) < 0 || text("verify", c->verify, sizeof c->verify) < 0) return false;
	if (text("serverName", c->server_name, sizeof c->server_name) < 0 || text("ca", c->ca, sizeof c->ca) < 0) return false;
	return prober_config_bool("tls", &c->tls) == 0;
}

/* lines reads the server line by line. */
struct lines {
	int conn;
	size_t from, to; /* the bytes in buf that were read and not yet returned */
	char buf[LINE_MAX];
};

/* next_line reads a line, replaces its line break with a 0, and returns its length. It returns a
   negative number if there is no line, and has then set the message of the result. */
static int next_line(struct lines *l, char **line) {
	size_t at = l->from;
	for (;;) {
		while (at < l->to && l->buf[at] != '\n') at++;
		if (at < l->to) break;
		if (l->from > 0) {
			memmove(l->buf, l->buf + l->from, l->to - l->from);
			at -= l->from, l->to -= l->from, l->from = 0;
		}
		if (l->to == sizeof l->buf) return (void)prober_failure("no NATS: a line that does not end"), -1;
		int n = prober_read(l->conn, l->buf + l->to, sizeof l->buf - l->to);
		if (n < 0) return (void)prober_failure("%s", prober_error_text()), -1;
		if (n == 0) return (void)prober_failure("the server hung up"), -1;
		l->to += (size_t)n;
	}
	*line = l->buf + l->from;
	size_t n = at - l->from;
	if (n > 0 && (*line)[n - 1] == '\r') n--;
	(*line)[n] = 0;
	l->from = at + 1;
	return (int)n;
}

/* shown returns the length of the printable start of a line. */
static int shown(const char *line, int n) {
	int i = 0;
	while (i < n && i < 120 && line[i] >= ' ' && line[i] <= '~') i++;
	return i;
}

/* info has the fields of INFO that the plugin uses. */
struct info {
	char name[64], version[32];
	double max_payload;
	bool tls_required, tls_available, lame_duck;
};

static bool is_true(const char *doc, size_t n, const char *path) {
	char value[8];
	int size = prober_json(doc, n, path, value, sizeof value);
	return size > 0 && prober_equal(value, (size_t)size, "true");
}

static bool parse_info(const char *line, int n, struct info *to) {
	if (!prober_starts(line, (size_t)n, "INFO {")) return false;
	const char *doc = line + strlen("INFO ");
	size_t size = (size_t)n - strlen("INFO ");
	char number[32];
	*to = (struct info){.max_payload = -1};
	if (prober_json(doc, size, "server_name", to->name, sizeof to->name) < 0) prober_format(to->name, sizeof to->name, "a server");
	if (prober_json(doc, size, "version", to->version, sizeof to->version) < 0) to->version[0] = 0;
	int digits = prober_json(doc, size, "max_payload", number, sizeof number);
	if (digits > 0) (void)prober_parse_double(number, (size_t)digits, &to->max_payload);
	to->tls_required = is_true(doc, size, "tls_required");
	to->tls_available = is_true(doc, size, "tls_available");
	to->lame_duck = is_true(doc, size, "ldm");
	return true;
}

static void add(prober_text *t, const char *s) { prober_add(t, s, strlen(s)); }

/* add_member adds a member to a JSON object, unless its value is empty. */
static void add_member(prober_text *t, const char *name, const char *value) {
	if (!*value) return;
	if (t->n > 0 && t->buf[t->n - 1] != '{') add(t, ",");
	prober_add_quoted(t, name, strlen(name));
	add(t, ":");
	prober_add_quoted(t, value, strlen(value));
}

static bool secure(int conn, const struct config *c) {
	static char buf[2 * CA_MAX];
	prober_text options = {buf, 0, sizeof buf - 1};
	add(&options, "{");
	add_member(&options, "verify", c->verify);
	add_member(&options, "serverName", c->server_name);
	add_member(&options, "ca", c->ca);
	add(&options, "}");
	buf[options.n] = 0;
	return prober_starttls(conn, buf) >= 0;
}

/* log_in ignores write errors. A server that closes the connection sends its reason first, and the
   next read returns it. Without a reason that read fails. */
static void log_in(int conn, const struct config *c, bool tls) {
	static char buf[16 * SECRET_MAX];
	prober_text t = {buf, 0, sizeof buf};
	add(&t, "CONNECT {");
	add_member(&t, "name", "prober");
	add_member(&t, "lang", "c");
	add_member(&t, "version", "0.1.0");
	add_member(&t, "user", c->user);
	add_member(&t, "pass", c->password);
	add_member(&t, "auth_token", c->token);
	add(&t, ",\"protocol\":1,\"verbose\":false,\"pedantic\":false,\"tls_required\":");
	add(&t, tls ? "true}\r\nPING\r\n" : "false}\r\nPING\r\n");
	(void)prober_write(conn, t.buf, t.n);
}

/* await_pong answers each PING, and reads each INFO, until the PONG comes. */
static bool await_pong(struct lines *l, struct info *info) {
	char *line;
	for (int i = 0; i < LINES; i++) {
		int n = next_line(l, &line);
		if (n < 0) return false;
		if (prober_equal(line, (size_t)n, "PONG")) return true;
		if (prober_starts(line, (size_t)n, "-ERR")) {
			const char *why = line + (n > 5 ? 5 : 0);
			(void)prober_failure("the server says %.*s", shown(why, n - (int)(why - line)), why);
			return false;
		}
		if (prober_equal(line, (size_t)n, "PING")) {
			if (prober_write_text(l->conn, "PONG\r\n") < 0) return (void)prober_failure("%s", prober_error_text()), false;
		} else if (!prober_equal(line, (size_t)n, "+OK") && !parse_info(line, n, info)) {
			(void)prober_failure("no NATS: the server says %.*s", shown(line, n), line);
			return false;
		}
	}
	(void)prober_failure("no PONG within %d lines", LINES);
	return false;
}

static double since(uint64_t begun) { return (double)(prober_ticks_ns() - begun) / 1e9; }

/* greet reads the first line and starts TLS if necessary. */
static bool greet(struct lines *l, const struct config *c, struct info *info, bool *tls) {
	char *line;
	int n = next_line(l, &line);
	if (n < 0) return false;
	if (prober_starts(line, (size_t)n, "-ERR ")) return (void)prober_failure("the server says %.*s", shown(line + 5, n - 5), line + 5), false;
	if (!parse_info(line, n, info)) return (void)prober_failure("no NATS: the server says %.*s", shown(line, n), line), false;
	*tls = c->tls || info->tls_required;
	if (!*tls) return true;
	if (!info->tls_required && !info->tls_available) return (void)prober_failure("%s does not offer TLS", info->name), false;
	/* Bytes received before the handshake are not protected by TLS. */
	if (l->from != l->to) return (void)prober_failure("the server continues in clear text before TLS"), false;
	if (!secure(l->conn, c)) return (void)prober_failure("%s", prober_error_text()), false;
	return true;
}

PROBER_EXPORT(probe)
prober_result probe(void) {
	struct config *c = &config;
	static struct lines l;
	struct info info;
	bool tls;
	if (!read_config(c)) return PROBER_ERROR;
	uint64_t begun = prober_ticks_ns();
	if ((l.conn = prober_dial()) < 0) return prober_failure("%s", prober_error_text());
	double connected = since(begun);
	if (!greet(&l, c, &info, &tls)) return PROBER_FAILURE;
	begun = prober_ticks_ns();
	log_in(l.conn, c, tls);
	if (!await_pong(&l, &info)) return PROBER_FAILURE;
	prober_metric("connect_seconds", "s", connected);
	prober_metric("ping_seconds", "s", since(begun));
	if (info.max_payload >= 0) prober_metric("max_payload_bytes", "bytes", info.max_payload);
	if (info.lame_duck) return prober_warning("%s, NATS %s, is in lame duck mode: it is about to leave", info.name, info.version);
	return prober_success("%s, NATS %s, answers", info.name, info.version);
}

PROBER_EXPORT(validate_config)
int validate_config(void) {
	struct config *c = &config;
	if (!read_config(c)) return -1;
	if (*c->token && *c->user) return (int)prober_error("config: either a token, or a user and a password");
	if (*c->password && !*c->user) return (int)prober_error("config: a password needs a user");
	return 0;
}
