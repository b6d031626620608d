/*
 * Ntp asks a time server for the time, as an SNTP client of version 4 does (RFC 5905),
 * and compares it with the clock of the host. A server that is not synchronised, that
 * rejects clients or whose time is far off is a Failure; one that is a little off is a
 * Warning.
 */
#include "prober.h"

enum { PACKET = 48, REQUEST_MAX = 8 << 10, TRIES = 3, MAX_STRATUM = 15, UNKNOWN_LEAP = 3 };

/* seconds from 1900, where NTP begins, to 1970. */
static const uint64_t ntp_epoch = 2208988800u;

struct config {
	double warn_offset, fail_offset;
	int64_t max_stratum;
};

/* sent is a request that was sent. Its transmit timestamp is a random number, which the answer must
   contain. So an answer cannot be forged without seeing the request. */
struct sent {
	unsigned char nonce[8];
	uint64_t time, ticks;
};

/* answer is the answer of a server. Its delays, dispersion and offset are in seconds. */
struct answer {
	int leap, stratum;
	double root_delay, root_dispersion, offset, delay;
	char reference[5];
};

static uint64_t big_endian(const unsigned char *p, int n) {
	uint64_t v = 0;
	while (n--) v = v << 8 | *p++;
	return v;
}

static uint64_t ntp_now(void) {
	uint64_t ns = prober_now_ns();
	return (ns / 1000000000u + ntp_epoch) << 32 | (ns % 1000000000u << 32) / 1000000000u;
}

/* between returns the seconds from a to b. It is right across the end of an NTP era too. */
static double between(uint64_t a, uint64_t b) { return (double)(int64_t)(b - a) / 4294967296.0; }

static int ask(int conn, struct sent *s) {
	unsigned char packet[PACKET] = {4 << 3 | 3};
	memcpy(packet + 40, s->nonce, sizeof s->nonce);
	s->time = ntp_now();
	s->ticks = prober_ticks_ns();
	return prober_write(conn, packet, sizeof packet);
}

/* answers returns the request that a packet answers, or 0 if there is none. */
static const struct sent *answers(const unsigned char *packet, int n, const struct sent *s, int count) {
	if (n < PACKET || (packet[0] & 7) != 4) return 0;
	for (int i = 0; i < count; i++)
		if (memcmp(packet + 24, s[i].nonce, sizeof s[i].nonce) == 0) return &s[i];
	return 0;
}

static struct answer parse(const unsigned char *p, const struct sent *s) {
	double took = (double)(prober_ticks_ns() - s->ticks) / 1e9;
	uint64_t received = big_endian(p + 32, 8), left = big_endian(p + 40, 8);
	double there = between(s->time, received), held = between(received, left);
	struct answer a = {
		.leap = p[0] >> 6,
		.stratum = p[1],
		.root_delay = (double)big_endian(p + 4, 4) / 65536,
		.root_dispersion = (double)big_endian(p + 8, 4) / 65536,
		.offset = there - (took - held) / 2,
		.delay = took > held ? took - held : 0,
	};
	for (int i = 0; i < 4 && p[12 + i] > ' ' && p[12 + i] <= '~'; i++) a.reference[i] = (char)p[12 + i];
	return a;
}

/* dial connects to the target, by default on port 123. */
static int dial(void) {
	static char request[REQUEST_MAX], host[256], url[300];
	char port[8];
	int n = prober_request(request, sizeof request);
	if (n < 0 || n > (int)sizeof request) return prober_dial_url("udp://", PROBER_UNTIL_DEADLINE);
	int digits = prober_json(request, (size_t)n, "target.port", port, sizeof port);
	int size = prober_json(request, (size_t)n, "target.host", host, sizeof host);
	if (size <= 0 || (digits > 0 && !prober_equal(port, (size_t)digits, "0"))) return prober_dial_url("udp://", PROBER_UNTIL_DEADLINE);
	bool colon = false;
	for (int i = 0; i < size; i++) colon = colon || host[i] == ':';
	prober_format(url, sizeof url, colon ? "udp://[%s]:123" : "udp://%s:123", host);
	return prober_dial_url(url, PROBER_UNTIL_DEADLINE);
}

/* exchange sends up to three requests before the deadline, since datagrams may be lost. It returns
   0 if an answer is received, and a negative number otherwise. */
static int exchange(int conn, struct sent *sent, struct answer *a) {
	unsigned char packet[512];
	int64_t left = prober_deadline_ms();
	for (int i = 0; i < TRIES; i++) {
		int failed = ask(conn, &sent[i]);
		if (failed) return failed;
		int64_t end = left / TRIES * (TRIES - 1 - i), wait;
		while ((wait = prober_deadline_ms() - end) > 0) {
			bool last = i == TRIES - 1 || wait > INT32_MAX;
			int n = prober_v1_net_read(conn, packet, sizeof packet, last ? PROBER_UNTIL_DEADLINE : (int32_t)wait);
			if (n == -PROBER_EAGAIN) break;
			if (n < 0) return n;
			const struct sent *s = answers(packet, n, sent, i + 1);
			if (s) return *a = parse(packet, s), 0;
			prober_log(PROBER_DEBUG, "a datagram of %d bytes that answers no request", n);
		}
	}
	return -1;
}

static double absolute(double v) { return v < 0 ? -v : v; }

static prober_result judge(const struct answer *a, const struct config *c) {
	if (a->stratum == 0 && *a->reference) return prober_failure("the server turns clients away: %s", a->reference);
	if (a->stratum == 0 || a->stratum > MAX_STRATUM || a->leap == UNKNOWN_LEAP) return prober_failure("the server is not synchronised");
	prober_metric("offset_seconds", "s", a->offset);
	prober_metric("delay_seconds", "s", a->delay);
	prober_metric("stratum", "", a->stratum);
	prober_metric("leap", "", a->leap);
	prober_metric("root_delay_seconds", "s", a->root_delay);
	prober_metric("root_dispersion_seconds", "s", a->root_dispersion);
	double off = absolute(a->offset);
	const char *way = a->offset < 0 ? "behind" : "ahead";
	if (a->stratum > c->max_stratum) return prober_failure("the server is of stratum %d, above %d", a->stratum, (int)c->max_stratum);
	if (off > c->fail_offset) return prober_failure("the server's clock is %.6f s %s, above %.6f s", off, way, c->fail_offset);
	if (off > c->warn_offset) return prober_warning("the server's clock is %.6f s %s, above %.6f s", off, way, c->warn_offset);
	return prober_success("stratum %d, %.6f s %s, %.6f s away", a->stratum, off, way, a->delay);
}

static bool read_config(struct config *c) {
	*c = (struct config){.warn_offset = 0.1, .fail_offset = 1, .max_stratum = MAX_STRATUM};
	return prober_config_seconds("warnOffset", &c->warn_offset) == 0 && prober_config_seconds("failOffset", &c->fail_offset) == 0 &&
		prober_config_int("maxStratum", &c->max_stratum) == 0;
}

PROBER_EXPORT(probe)
prober_result probe(void) {
	struct config c;
	struct answer a;
	struct sent sent[TRIES];
	if (!read_config(&c)) return PROBER_ERROR;
	for (int i = 0; i < TRIES; i++)
		if (!prober_random(sent[i].nonce, sizeof sent[i].nonce)) return prober_error("no randomness");
	int conn = dial();
	if (conn < 0) return prober_failure("%s", prober_error_text());
	if (exchange(conn, sent, &a) < 0) return prober_failure("%s", prober_error_text());
	return judge(&a, &c);
}

PROBER_EXPORT(validate_config)
int validate_config(void) {
	struct config c;
	if (!read_config(&c)) return -1;
	if (c.warn_offset > c.fail_offset) return (int)prober_error("config: warnOffset is above failOffset");
	return 0;
}
