/*
 * Memcached asks a memcached server for its statistics over the text protocol. A server
 * that does not answer them is a Failure; one that is nearly full is a Warning.
 */
#include "prober.h"

enum { ANSWER_MAX = 16 << 10 };

/* stats has the statistics that the plugin checks; -1 if the server does not report one. */
struct stats {
	double uptime, bytes, limit, connections, most_connections, items, evictions;
};

static void note(struct stats *s, const char *name, size_t n, double value) {
	const struct {
		const char *name;
		double *to;
	} known[] = {
		{"uptime", &s->uptime},
		{"bytes", &s->bytes},
		{"limit_maxbytes", &s->limit},
		{"curr_connections", &s->connections},
		{"max_connections", &s->most_connections},
		{"curr_items", &s->items},
		{"evictions", &s->evictions},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (prober_equal(name, n, known[i].name)) *known[i].to = value;
}

/* parse reads lines "STAT name value". */
static struct stats parse(const char *p, const char *end) {
	struct stats s = {-1, -1, -1, -1, -1, -1, -1};
	while (p < end) {
		const char *line = p;
		while (p < end && *p != '\r') p++;
		if (prober_starts(line, (size_t)(p - line), "STAT ")) {
			const char *name = line + strlen("STAT "), *space = name;
			double value;
			while (space < p && *space != ' ') space++;
			if (space < p && prober_parse_double(space + 1, (size_t)(p - space - 1), &value))
				note(&s, name, (size_t)(space - name), value);
		}
		p += p < end ? 2 : 0;
	}
	return s;
}

static bool complete(const char *answer, size_t n) { return n >= 5 && memcmp(answer + n - 5, "END\r\n", 5) == 0; }

/* read_stats reads to the line END, or one line of anything else. */
static int read_stats(int conn, char *answer, size_t cap) {
	size_t n = 0;
	do {
		int more = prober_read_until(conn, answer + n, cap - n, "\r\n");
		if (more < 0) return more;
		if (more == 0) break;
		n += (size_t)more;
	} while (prober_starts(answer, n, "STAT ") && !complete(answer, n) && n < cap);
	return (int)n;
}

static double ratio(const char *metric, double part, double whole) {
	if (part < 0 || whole <= 0) return 0;
	prober_metric(metric, "", part / whole);
	return part / whole;
}

static prober_result judge(struct stats s, double max_memory, double max_connections) {
	double memory = 100 * ratio("memory_used_ratio", s.bytes, s.limit);
	double connections = 100 * ratio("connections_used_ratio", s.connections, s.most_connections);
	if (s.uptime >= 0) prober_metric("uptime_seconds", "s", s.uptime);
	if (s.items >= 0) prober_metric("items", "", s.items);
	if (s.evictions >= 0) prober_metric("evictions", "", s.evictions);
	if (connections > max_connections)
		return prober_warning("%.1f%% of the connections are in use, above %.1f%%", connections, max_connections);
	if (memory > max_memory) return prober_warning("%.1f%% of the memory is in use, above %.1f%%", memory, max_memory);
	return prober_success("up for %.0f s, %.0f items, %.1f%% of the memory in use", s.uptime, s.items, memory);
}

/* stranger returns the printable start of an answer that has no statistics. */
static prober_result stranger(const char *answer, int n) {
	int line = 0;
	while (line < n && line < 80 && answer[line] >= ' ' && answer[line] <= '~') line++;
	return prober_failure("no statistics: the server says %.*s", line, answer);
}

PROBER_EXPORT(probe)
prober_result probe(void) {
	static char answer[ANSWER_MAX];
	double max_memory = 100, max_connections = 90;
	if (prober_config_double("maxMemory", &max_memory) < 0) return PROBER_ERROR;
	if (prober_config_double("maxConnections", &max_connections) < 0) return PROBER_ERROR;

	int conn = prober_dial();
	if (conn < 0) return prober_failure("%s", prober_error_text());
	int64_t before = prober_deadline_ms();
	if (prober_write_text(conn, "stats\r\n") < 0) return prober_failure("%s", prober_error_text());
	int n = read_stats(conn, answer, sizeof answer);
	if (n < 0) return prober_failure("%s", prober_error_text());
	if (n == 0) return prober_failure("the server hung up without an answer");
	if (!prober_starts(answer, (size_t)n, "STAT ")) return stranger(answer, n);
	if (n == sizeof answer) return prober_failure("no end of the statistics within %d bytes", ANSWER_MAX);
	if (!complete(answer, (size_t)n)) return prober_failure("the server hung up in the middle of its statistics");
	prober_metric("stats_seconds", "s", (double)(before - prober_deadline_ms()) / 1e3);
	return judge(parse(answer, answer + n), max_memory, max_connections);
}
