/*
 * Beanstalkd asks a beanstalkd server for the statistics of all its jobs, or of the jobs of one tube. A server that
 * does not answer, or that has no such tube, is a Failure; more waiting or buried jobs than allowed are a Warning.
 */
#include "prober.h"

enum { ANSWER_MAX = 16 << 10, TUBE_MAX = 200 };

/* stats has the statistics that the plugin checks; -1 if the server does not report one. */
struct stats {
	double ready, reserved, delayed, buried;
	bool draining;
};

static void note(struct stats *s, const char *name, size_t n, const char *value, size_t size) {
	const struct {
		const char *name;
		double *to;
	} known[] = {
		{"current-jobs-ready", &s->ready},
		{"current-jobs-reserved", &s->reserved},
		{"current-jobs-delayed", &s->delayed},
		{"current-jobs-buried", &s->buried},
	};
	if (prober_equal(name, n, "draining")) s->draining = prober_equal(value, size, "true");
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (prober_equal(name, n, known[i].name) && !prober_parse_double(value, size, known[i].to)) *known[i].to = -1;
}

/* parse reads lines "name: value". */
static struct stats parse(const char *p, const char *end) {
	struct stats s = {-1, -1, -1, -1, false};
	while (p < end) {
		const char *line = p, *colon;
		while (p < end && *p != '\n') p++;
		for (colon = line; colon < p && *colon != ':';) colon++;
		if (p - colon > 2) note(&s, line, (size_t)(colon - line), colon + 2, (size_t)(p - colon - 2));
		p += p < end;
	}
	return s;
}

/* first_line returns the length of the first line with its end; 0 if it has none yet. */
static int first_line(const char *answer, int n) {
	for (int i = 0; i + 1 < n; i++)
		if (answer[i] == '\r' && answer[i + 1] == '\n') return i + 2;
	return 0;
}

/* announced returns the number of bytes that a line "OK SIZE" announces; -1 if it is another line. */
static int announced(const char *line, int n) {
	double size;
	if (n < 6 || !prober_starts(line, (size_t)n, "OK ")) return -1;
	if (!prober_parse_double(line + 3, (size_t)n - 5, &size) || size < 0 || size > ANSWER_MAX - n - 2) return -1;
	return (int)size;
}

/* stranger returns the printable start of another answer than the wanted one. */
static prober_result stranger(const char *answer, int n) {
	int line = 0;
	while (line < n && line < 80 && answer[line] >= ' ' && answer[line] <= '~') line++;
	return prober_failure("no statistics: the server says %.*s", line, answer);
}

static void measure(const char *name, double jobs) {
	if (jobs >= 0) prober_metric(name, "", jobs);
}

static prober_result judge(struct stats s, double max_ready, double max_buried) {
	measure("jobs_ready", s.ready);
	measure("jobs_reserved", s.reserved);
	measure("jobs_delayed", s.delayed);
	measure("jobs_buried", s.buried);
	if (s.ready < 0 || s.buried < 0) return prober_failure("no statistics of jobs");
	if (s.ready > max_ready) return prober_warning("%.0f jobs wait for a worker, more than %.0f", s.ready, max_ready);
	if (s.buried > max_buried) return prober_warning("%.0f jobs are buried, more than %.0f", s.buried, max_buried);
	if (s.draining) return prober_warning("the server is draining: it takes no new jobs");
	return prober_success("%.0f jobs wait, %.0f are with workers, %.0f are buried", s.ready, s.reserved, s.buried);
}

/* ask sends a command and reads the answer. It returns the size of its body, or -1 with a result. */
static int ask(int conn, const char *tube, const char **body, prober_result *bad) {
	static char answer[ANSWER_MAX];
	char command[TUBE_MAX + 16];
	int n = 0, line = 0, size = -1;
	prober_format(command, sizeof command, *tube ? "stats-tube %s\r\n" : "stats\r\n", tube);
	prober_progress("no answer to %s", *tube ? "stats-tube" : "stats");
	if (prober_write_text(conn, command) < 0) return *bad = prober_failure("%s", prober_error_text()), -1;
	do {
		int more = prober_read_until(conn, answer + n, (size_t)(ANSWER_MAX - n), "\r\n");
		if (more < 0) return *bad = prober_failure("%s", prober_error_text()), -1;
		if (more == 0) return *bad = prober_failure("the server closed the connection after %d bytes", n), -1;
		n += more;
		if (line == 0) line = first_line(answer, n), size = announced(answer, line);
	} while (n < ANSWER_MAX && (line == 0 || (size >= 0 && n < line + size + 2)));
	if (prober_equal(answer, (size_t)line, "NOT_FOUND\r\n")) return *bad = prober_failure("no tube %s", tube), -1;
	if (size < 0) return *bad = stranger(answer, n), -1;
	*body = answer + line;
	if (n != line + size + 2) return *bad = prober_failure("the statistics have more than %d bytes", size), -1;
	return size;
}

/* read_tube reads the name of the tube, "" for all. It must not end the command. */
static bool read_tube(char *tube, size_t cap) {
	int n = prober_config("tube", tube, cap);
	if (n == -PROBER_ENOENT) return *tube = 0, true;
	for (int i = 0; i < n; i++)
		if (tube[i] <= ' ' || tube[i] > '~') n = -1;
	if (n < 0) (void)prober_error("config: tube: must have at most %zu printable characters", cap - 1);
	return n >= 0;
}

PROBER_EXPORT(probe)
prober_result probe(void) {
	char tube[TUBE_MAX + 1];
	const char *stats;
	double max_ready = 1000, max_buried = 0;
	prober_result bad;
	if (!read_tube(tube, sizeof tube)) return PROBER_ERROR;
	if (prober_config_double("maxReady", &max_ready) < 0) return PROBER_ERROR;
	if (prober_config_double("maxBuried", &max_buried) < 0) return PROBER_ERROR;
	int conn = prober_dial();
	if (conn < 0) return prober_failure("%s", prober_error_text());
	uint64_t begun = prober_ticks_ns();
	int n = ask(conn, tube, &stats, &bad);
	if (n < 0) return bad;
	prober_metric("stats_seconds", "s", (double)(prober_ticks_ns() - begun) / 1e9);
	return judge(parse(stats, stats + n), max_ready, max_buried);
}

PROBER_EXPORT(validate_config)
int validate_config(void) {
	char tube[TUBE_MAX + 1];
	return read_tube(tube, sizeof tube) ? 0 : -1;
}
