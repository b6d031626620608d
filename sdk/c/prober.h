/*
 * prober.h: the SDK for plugins in C and C++.
 *
 *   #include "prober.h"
 *
 *   PROBER_EXPORT(probe)
 *   prober_result probe(void) {
 *       int conn = prober_dial();
 *       if (conn < 0) return prober_failure("%s", prober_error_text());
 *       return prober_success("connected");
 *   }
 *
 * It does not need a library: it builds for wasm32-wasi with wasi-libc, and for wasm32 with
 * -nostdlib. No function allocates memory. Functions are static, so several files of a plugin
 * may include it. A function that fails returns the negative of a PROBER_E number, and
 * prober_error_text returns the message.
 */
#ifndef PROBER_H
#define PROBER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROBER_EXPORT(name) __attribute__((export_name(#name)))
#define PROBER_IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define PROBER_FUNC static inline __attribute__((unused))
#define PROBER_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* The result of a probe. Functions such as prober_success set its message and return it. */
typedef enum {
	PROBER_ERROR = -1, /* no verdict; the host retries */
	PROBER_SUCCESS = 0,
	PROBER_WARNING = 1, /* a success with a warning */
	PROBER_FAILURE = 2,
	PROBER_UNKNOWN = 3, /* the health is unknown; counts as a Failure */
} prober_result;

/* The error numbers of WASI preview 1. Host calls return their negatives. */
enum {
	PROBER_EACCES = 2, /* denied by the operator's grants */
	PROBER_EAGAIN = 6,
	PROBER_EBADF = 8,
	PROBER_ECONNREFUSED = 14,
	PROBER_ECONNRESET = 15,
	PROBER_EDQUOT = 19, /* a limit of the attempt is exhausted */
	PROBER_EFAULT = 21,
	PROBER_EHOSTUNREACH = 23,
	PROBER_EINVAL = 28,
	PROBER_EIO = 29,
	PROBER_EMFILE = 33,
	PROBER_EMSGSIZE = 35,
	PROBER_ENETUNREACH = 40,
	PROBER_ENOENT = 44,
	PROBER_ENOTSUP = 58,
	PROBER_EPERM = 63, /* the capability was not granted */
	PROBER_EPIPE = 64,
	PROBER_EPROTO = 65,
	PROBER_ETIMEDOUT = 73,
};

typedef enum { PROBER_DEBUG, PROBER_INFO, PROBER_WARN, PROBER_ERR } prober_level;

/* Special values of a timeout in milliseconds. */
enum { PROBER_NONBLOCKING = 0, PROBER_UNTIL_DEADLINE = -1 };

enum { PROBER_MAX_LINE = 512 }; /* bytes of a formatted message or log line */

/* ---- Host functions: see docs/abi.md ---- */

#define PROBER_HOST(module, name) extern PROBER_IMPORT(module, #name) int32_t
PROBER_HOST("prober_v1", request_read) prober_v1_request_read(char *buf, uint32_t cap);
PROBER_HOST("prober_v1", config_get) prober_v1_config_get(const char *key, uint32_t n, char *buf, uint32_t cap);
PROBER_HOST("prober_v1", result_write) prober_v1_result_write(const char *doc, uint32_t n);
PROBER_HOST("prober_v1", metric) prober_v1_metric(const char *name, uint32_t n, const char *unit, uint32_t m, double value);
PROBER_HOST("prober_v1", log_enabled) prober_v1_log_enabled(int32_t level);
PROBER_HOST("prober_v1", last_error) prober_v1_last_error(char *buf, uint32_t cap);
extern PROBER_IMPORT("prober_v1", "message") void prober_v1_message(const char *text, uint32_t n);
extern PROBER_IMPORT("prober_v1", "log") void prober_v1_log(int32_t level, const char *text, uint32_t n);
extern PROBER_IMPORT("prober_v1", "deadline_ms") int64_t prober_v1_deadline_ms(void);

PROBER_HOST("wasi_snapshot_preview1", clock_time_get) prober_wasi_clock_time_get(uint32_t clock, uint64_t precision, uint64_t *ns);
PROBER_HOST("wasi_snapshot_preview1", random_get) prober_wasi_random_get(void *buf, uint32_t n);

PROBER_HOST("prober_v1_net", dial) prober_v1_net_dial(const char *url, uint32_t n, int32_t timeout_ms);
PROBER_HOST("prober_v1_net", read) prober_v1_net_read(int32_t h, void *buf, uint32_t cap, int32_t timeout_ms);
PROBER_HOST("prober_v1_net", write) prober_v1_net_write(int32_t h, const void *data, uint32_t n, int32_t timeout_ms);
PROBER_HOST("prober_v1_net", close) prober_v1_net_close(int32_t h);
PROBER_HOST("prober_v1_net", info) prober_v1_net_info(int32_t h, char *buf, uint32_t cap);
PROBER_HOST("prober_v1_net", poll) prober_v1_net_poll(const int32_t *handles, uint32_t n, int32_t timeout_ms);
PROBER_HOST("prober_v1_net", starttls) prober_v1_net_starttls(int32_t h, const char *options, uint32_t n);

PROBER_HOST("prober_v1_http", do) prober_v1_http_do(const char *req, uint32_t n, const void *body, uint32_t m);
PROBER_HOST("prober_v1_http", head) prober_v1_http_head(int32_t h, char *buf, uint32_t cap);
PROBER_HOST("prober_v1_http", read) prober_v1_http_read(int32_t h, void *buf, uint32_t cap, int32_t timeout_ms);
PROBER_HOST("prober_v1_http", close) prober_v1_http_close(int32_t h);

PROBER_HOST("prober_v1_dns", lookup) prober_v1_dns_lookup(const char *req, uint32_t n, int32_t timeout_ms);
PROBER_HOST("prober_v1_dns", read) prober_v1_dns_read(int32_t h, char *buf, uint32_t cap, int32_t timeout_ms);

PROBER_HOST("prober_v1_kv", get) prober_v1_kv_get(const char *key, uint32_t n, char *buf, uint32_t cap);
PROBER_HOST("prober_v1_kv", set) prober_v1_kv_set(const char *key, uint32_t n, const void *value, uint32_t m);
PROBER_HOST("prober_v1_kv", delete) prober_v1_kv_delete(const char *key, uint32_t n);

PROBER_HOST("prober_v1_icmp", echo) prober_v1_icmp_echo(const char *req, uint32_t n, int32_t timeout_ms);
PROBER_HOST("prober_v1_icmp", read) prober_v1_icmp_read(int32_t h, char *buf, uint32_t cap);

PROBER_HOST("prober_v1_files", stat) prober_v1_files_stat(const char *path, uint32_t n, char *buf, uint32_t cap);
PROBER_HOST("prober_v1_files", statfs) prober_v1_files_statfs(const char *path, uint32_t n, char *buf, uint32_t cap);
PROBER_HOST("prober_v1_files", read) prober_v1_files_read(const char *path, uint32_t n, int64_t offset, void *buf, uint32_t cap);
PROBER_HOST("prober_v1_files", list) prober_v1_files_list(const char *path, uint32_t n, char *buf, uint32_t cap);

/* ---- Memory and strings ---- */

/* The compiler may emit calls to these functions even without a libc. */
#ifndef __wasi__
#define PROBER_LIBC(name) __attribute__((weak, no_builtin(name)))
PROBER_LIBC("memcpy") void *memcpy(void *to, const void *from, size_t n) {
	char *t = (char *)to;
	const char *f = (const char *)from;
	while (n--) *t++ = *f++;
	return to;
}
PROBER_LIBC("memmove") void *memmove(void *to, const void *from, size_t n) {
	char *t = (char *)to;
	const char *f = (const char *)from;
	if (t < f)
		while (n--) *t++ = *f++;
	else
		while (n--) t[n] = f[n];
	return to;
}
PROBER_LIBC("memset") void *memset(void *to, int c, size_t n) {
	char *t = (char *)to;
	while (n--) *t++ = (char)c;
	return to;
}
PROBER_LIBC("memcmp") int memcmp(const void *a, const void *b, size_t n) {
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
	for (; n--; x++, y++)
		if (*x != *y) return *x - *y;
	return 0;
}
PROBER_LIBC("strlen") size_t strlen(const char *s) {
	size_t n = 0;
	while (s[n]) n++;
	return n;
}
#else
#include <string.h>
#endif

/* prober_equal reports whether the n bytes at text equal word. */
PROBER_FUNC bool prober_equal(const char *text, size_t n, const char *word) {
	return strlen(word) == n && memcmp(text, word, n) == 0;
}

/* prober_starts reports whether the n bytes at text begin with word. */
PROBER_FUNC bool prober_starts(const char *text, size_t n, const char *word) {
	return n >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* prober_text is a string in a buffer of fixed size. Bytes that exceed it are dropped. */
typedef struct {
	char *buf;
	size_t n, cap;
} prober_text;

PROBER_FUNC void prober_add(prober_text *t, const char *s, size_t n) {
	if (n > t->cap - t->n) n = t->cap - t->n;
	memcpy(t->buf + t->n, s, n);
	t->n += n;
}

PROBER_FUNC void prober_add_number(prober_text *t, uint64_t v, bool negative, unsigned base, int width, char pad) {
	char digits[24];
	int at = sizeof digits;
	do digits[--at] = "0123456789abcdef"[v % base];
	while (v /= base);
	if (negative && pad == '0') prober_add(t, "-", 1);
	for (int used = (int)sizeof digits - at + negative; used < width; used++) prober_add(t, &pad, 1);
	if (negative && pad != '0') prober_add(t, "-", 1);
	prober_add(t, digits + at, sizeof digits - at);
}

PROBER_FUNC void prober_add_double(prober_text *t, double v, int precision) {
	if (v != v) {
		prober_add(t, "nan", 3);
		return;
	}
	bool negative = v < 0;
	if (negative) v = -v;
	uint64_t scale = 1;
	if (precision < 0) precision = 6;
	if (precision > 9) precision = 9;
	for (int i = 0; i < precision; i++) scale *= 10;
	if (v >= 1e18) {
		prober_add(t, negative ? "-inf" : "inf", negative ? 4 : 3);
		return;
	}
	uint64_t whole = (uint64_t)v;
	uint64_t part = (uint64_t)((v - (double)whole) * (double)scale + 0.5);
	if (part >= scale) whole++, part -= scale;
	prober_add_number(t, whole, negative, 10, 0, ' ');
	if (precision > 0) {
		prober_add(t, ".", 1);
		prober_add_number(t, part, false, 10, precision, '0');
	}
}

/* prober_add_quoted adds a string as a JSON string. */
PROBER_FUNC void prober_add_quoted(prober_text *t, const char *s, size_t n) {
	prober_add(t, "\"", 1);
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '"' || s[i] == '\\') prober_add(t, "\\", 1);
		if ((unsigned char)s[i] >= ' ') {
			prober_add(t, s + i, 1);
			continue;
		}
		prober_add(t, "\\u", 2);
		prober_add_number(t, (unsigned char)s[i], false, 16, 4, '0');
	}
	prober_add(t, "\"", 1);
}

PROBER_FUNC int prober_digits(const char **f, va_list *args) {
	int n = 0;
	if (**f == '*') return (*f)++, va_arg(*args, int);
	while (**f >= '0' && **f <= '9') n = n * 10 + *(*f)++ - '0';
	return n;
}

PROBER_FUNC int64_t prober_argument(int size, bool is_signed, va_list *args) {
	if (size >= 2) return va_arg(*args, int64_t);
	int v = va_arg(*args, int);
	return is_signed ? (int64_t)v : (int64_t)(unsigned)v;
}

/* prober_directive adds the value of one directive of a format, and returns the rest of the
   format. */
PROBER_FUNC const char *prober_directive(prober_text *t, const char *f, va_list *args) {
	char pad = *f == '0' ? '0' : ' ';
	int width = prober_digits(&f, args), precision = -1, size = 0;
	if (*f == '.') f++, precision = prober_digits(&f, args);
	for (; *f == 'l' || *f == 'z'; f++) size += *f == 'l';
	char kind = *f;
	switch (kind) {
	case 's': {
		const char *s = va_arg(*args, const char *);
		size_t n = 0;
		while ((precision < 0 || n < (size_t)precision) && s[n]) n++;
		prober_add(t, s, n);
		break;
	}
	case 'd':
	case 'i': {
		int64_t v = prober_argument(size, true, args);
		prober_add_number(t, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0, 10, width, pad);
		break;
	}
	case 'u':
	case 'x':
		prober_add_number(t, (uint64_t)prober_argument(size, false, args), false, kind == 'x' ? 16 : 10, width, pad);
		break;
	case 'f':
		prober_add_double(t, va_arg(*args, double), precision);
		break;
	case 'c': {
		char c = (char)va_arg(*args, int);
		prober_add(t, &c, 1);
		break;
	}
	case 0:
		return f;
	default:
		prober_add(t, f, 1);
	}
	return f + 1;
}

/* prober_vformat writes to buf without a 0 at the end, and returns the length, at most cap. It
   supports %s, %.*s, %c, %d, %u and %x with l and ll, %zu, %f with a precision, and %%. */
PROBER_FUNC size_t prober_vformat(char *buf, size_t cap, const char *f, va_list args) {
	prober_text t = {buf, 0, cap};
	va_list rest;
	va_copy(rest, args);
	while (*f) {
		const char *from = f;
		while (*f && *f != '%') f++;
		prober_add(&t, from, (size_t)(f - from));
		if (*f) f = prober_directive(&t, f + 1, &rest);
	}
	va_end(rest);
	return t.n;
}

/* prober_format writes to buf with a 0 at the end, and returns the length without it. */
PROBER_FUNC PROBER_FORMAT(3, 4) size_t prober_format(char *buf, size_t cap, const char *f, ...) {
	va_list args;
	va_start(args, f);
	size_t n = cap ? prober_vformat(buf, cap - 1, f, args) : 0;
	va_end(args);
	if (cap) buf[n] = 0;
	return n;
}

/* ---- Results ---- */

PROBER_FUNC prober_result prober_say(prober_result result, const char *f, va_list args) {
	char line[PROBER_MAX_LINE];
	prober_v1_message(line, (uint32_t)prober_vformat(line, sizeof line, f, args));
	return result;
}

#define PROBER_RESULT(name, result)                                                    \
	PROBER_FUNC PROBER_FORMAT(1, 2) prober_result name(const char *f, ...) {           \
		va_list args;                                                                  \
		va_start(args, f);                                                             \
		prober_result r = prober_say(result, f, args);                                 \
		va_end(args);                                                                  \
		return r;                                                                      \
	}
PROBER_RESULT(prober_success, PROBER_SUCCESS)
PROBER_RESULT(prober_warning, PROBER_WARNING)
PROBER_RESULT(prober_failure, PROBER_FAILURE)
PROBER_RESULT(prober_unknown, PROBER_UNKNOWN)
PROBER_RESULT(prober_error, PROBER_ERROR)

/* prober_metric adds a metric. unit may be "". */
PROBER_FUNC int prober_metric(const char *name, const char *unit, double value) {
	return prober_v1_metric(name, (uint32_t)strlen(name), unit, (uint32_t)strlen(unit), value);
}

/* prober_result_json sets the whole result as a JSON document, which can also have metric labels
   and details. */
PROBER_FUNC int prober_result_json(const char *doc, size_t n) { return prober_v1_result_write(doc, (uint32_t)n); }

/* prober_progress sets the message of an attempt that reaches its deadline, such as what the probe
   waits for. A result replaces it. */
PROBER_FUNC PROBER_FORMAT(1, 2) void prober_progress(const char *f, ...) {
	va_list args;
	va_start(args, f);
	(void)prober_say(PROBER_SUCCESS, f, args);
	va_end(args);
}

/* prober_log writes a line to the log of the host. */
PROBER_FUNC PROBER_FORMAT(2, 3) void prober_log(prober_level level, const char *f, ...) {
	if (!prober_v1_log_enabled(level)) return;
	char line[PROBER_MAX_LINE];
	va_list args;
	va_start(args, f);
	prober_v1_log(level, line, (uint32_t)prober_vformat(line, sizeof line, f, args));
	va_end(args);
}

/* prober_deadline_ms returns the time left in milliseconds, INT64_MAX without a deadline. */
PROBER_FUNC int64_t prober_deadline_ms(void) { return prober_v1_deadline_ms(); }

/* prober_now_ns returns the time since 1970. */
PROBER_FUNC uint64_t prober_now_ns(void) {
	uint64_t ns = 0;
	prober_wasi_clock_time_get(0, 1, &ns);
	return ns;
}

/* prober_ticks_ns returns the time of a monotonic clock. Use it to measure durations. */
PROBER_FUNC uint64_t prober_ticks_ns(void) {
	uint64_t ns = 0;
	prober_wasi_clock_time_get(1, 1, &ns);
	return ns;
}

/* prober_days returns the days from 1970 to a date of the Gregorian calendar. */
PROBER_FUNC int64_t prober_days(int64_t year, int month, int day) {
	if (month <= 2) year--;
	int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* prober_utc is a time in UTC. */
typedef struct {
	int year, month, day, hour, minute, second;
} prober_utc;

/* prober_utc_of returns a time from seconds since 1970, in years up to 9999. */
PROBER_FUNC prober_utc prober_utc_of(int64_t seconds) {
	int64_t day = (seconds >= 0 ? seconds : seconds - 86399) / 86400, left = seconds - day * 86400;
	day += 719468; /* the calendar begins in March of the year 0, and has eras of 400 years */
	int64_t era = (day >= 0 ? day : day - 146096) / 146097, of_era = day - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int march = (int)((5 * of_year + 2) / 153), month = march < 10 ? march + 3 : march - 9;
	return (prober_utc){(int)(era * 400 + year) + (month <= 2), month, (int)of_year - (153 * march + 2) / 5 + 1,
	                    (int)(left / 3600), (int)(left / 60 % 60), (int)(left % 60)};
}

/* prober_rfc3339 writes a time, seconds since 1970, as "2006-01-02T15:04:05Z", with a 0 at the end. 21
   bytes suffice. It returns the length without the 0. */
PROBER_FUNC size_t prober_rfc3339(int64_t seconds, char *buf, size_t cap) {
	prober_utc t = prober_utc_of(seconds);
	return prober_format(buf, cap, "%04d-%02d-%02dT%02d:%02d:%02dZ", t.year, t.month, t.day, t.hour, t.minute, t.second);
}

/* prober_basic_time writes a time as "20060102T150405Z", as in signatures of requests. */
PROBER_FUNC size_t prober_basic_time(int64_t seconds, char *buf, size_t cap) {
	prober_utc t = prober_utc_of(seconds);
	return prober_format(buf, cap, "%04d%02d%02dT%02d%02d%02dZ", t.year, t.month, t.day, t.hour, t.minute, t.second);
}

/* prober_two returns the number of the two digits at s, or -100000. */
PROBER_FUNC int prober_two(const char *s) {
	bool digits = s[0] >= '0' && s[0] <= '9' && s[1] >= '0' && s[1] <= '9';
	return digits ? (s[0] - '0') * 10 + s[1] - '0' : -100000;
}

/* prober_zone parses n bytes as the zone of a time, "Z" or "+02:00", and sets its seconds. */
PROBER_FUNC bool prober_zone(const char *s, size_t n, int *seconds) {
	*seconds = 0;
	if (n == 1) return *s == 'Z' || *s == 'z';
	if (n != 6 || (*s != '+' && *s != '-') || s[3] != ':') return false;
	int hours = prober_two(s + 1), minutes = prober_two(s + 4);
	*seconds = (hours * 60 + minutes) * (*s == '-' ? -60 : 60);
	return hours >= 0 && hours <= 23 && minutes >= 0 && minutes <= 59;
}

/* prober_parse_time parses n bytes as RFC 3339, such as "2006-01-02T15:04:05.5+02:00", without the
   fraction of a second. It sets the seconds since 1970, or returns false. */
PROBER_FUNC bool prober_parse_time(const char *s, size_t n, int64_t *seconds) {
	static const char marks[] = "dddd-dd-ddTdd:dd:dd";
	int zone;
	if (n < sizeof marks) return false;
	for (size_t i = 0; marks[i]; i++)
		if (marks[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != marks[i] && !(i == 10 && s[i] == 't')) return false;
	int year = prober_two(s) * 100 + prober_two(s + 2), month = prober_two(s + 5), day = prober_two(s + 8);
	int hour = prober_two(s + 11), minute = prober_two(s + 14), second = prober_two(s + 17);
	size_t at = sizeof marks - 1, from = at;
	if (s[at] == '.')
		for (at++; at < n && s[at] >= '0' && s[at] <= '9';) at++;
	if (at == from + 1 || at >= n || !prober_zone(s + at, n - at, &zone)) return false;
	if (month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60) return false;
	int64_t days = prober_days(year, month, day);
	if (days >= prober_days(month < 12 ? year : year + 1, month < 12 ? month + 1 : 1, 1)) return false;
	*seconds = days * 86400 + hour * 3600 + minute * 60 + second - zone;
	return true;
}

/* prober_random fills a buffer with random bytes. */
PROBER_FUNC bool prober_random(void *buf, size_t n) { return prober_wasi_random_get(buf, (uint32_t)n) == 0; }

/* prober_error_text returns the message of the last host call that failed. The next call of
   prober_error_text overwrites it. */
PROBER_FUNC const char *prober_error_text(void) {
	static char text[PROBER_MAX_LINE];
	int n = prober_v1_last_error(text, sizeof text - 1);
	if (n < 0 || n > (int)sizeof text - 1) n = (int)prober_format(text, sizeof text, "host call failed");
	text[n] = 0;
	return text;
}

/* ---- Request and config ---- */

/* prober_request writes the request as a JSON document and returns its length. If that is above
   cap, nothing is written. */
PROBER_FUNC int prober_request(char *buf, size_t cap) { return prober_v1_request_read(buf, (uint32_t)cap); }

/* prober_config writes the value at a dotted path of the config, with a 0 at the end: a string
   without its quotes, anything else as JSON. It returns the length without the 0,
   -PROBER_ENOENT if the value is not set, or -PROBER_EMSGSIZE if cap is too small. */
PROBER_FUNC int prober_config(const char *path, char *buf, size_t cap) {
	if (cap == 0) return -PROBER_EMSGSIZE;
	int n = prober_v1_config_get(path, (uint32_t)strlen(path), buf, (uint32_t)cap - 1);
	if (n < 0) return n;
	if ((size_t)n > cap - 1) return -PROBER_EMSGSIZE;
	buf[n] = 0;
	return n;
}

PROBER_FUNC int prober_bad_config(const char *path, const char *text, const char *want) {
	(void)prober_error("config: %s: %s is no %s", path, text, want);
	return -PROBER_EINVAL;
}

/* prober_parse_double parses n bytes as a decimal number. It returns false if they are not one, or
 * the number is too large. */
PROBER_FUNC bool prober_parse_double(const char *s, size_t n, double *value) {
	double v = 0, place = 1;
	bool negative = n > 0 && *s == '-', point = false;
	size_t i = negative, digits = 0;
	for (; i < n && (s[i] == '.' || (s[i] >= '0' && s[i] <= '9')); i++) {
		if (s[i] == '.') {
			if (point) return false;
			point = true;
			continue;
		}
		digits++;
		v = v * 10 + (s[i] - '0');
		if (point) place *= 10;
	}
	int exponent = 0;
	if (digits && i < n && (s[i] == 'e' || s[i] == 'E')) {
		bool minus = ++i < n && s[i] == '-';
		if (i < n && (s[i] == '-' || s[i] == '+')) i++;
		if (i == n) return false;
		for (; i < n && s[i] >= '0' && s[i] <= '9'; i++)
			if (exponent < 400) exponent = exponent * 10 + s[i] - '0';
		if (minus) exponent = -exponent;
	}
	if (i != n || digits == 0) return false;
	v /= place;
	for (; exponent > 0; exponent--) v *= 10;
	for (; exponent < 0; exponent++) v /= 10;
	if (v > 1.7976931348623157e308) return false;
	*value = negative ? -v : v;
	return true;
}

/* prober_config_double, _int, _bool, _seconds and _millis read a value of the config. They leave
   *value as it is if the value is not set. They return 0, or a negative number if the value has
   another type. The message of the result is then set: return PROBER_ERROR. */
PROBER_FUNC int prober_config_double(const char *path, double *value) {
	char text[64];
	int n = prober_config(path, text, sizeof text);
	if (n == -PROBER_ENOENT) return 0;
	if (n < 0 || !prober_parse_double(text, (size_t)n, value)) return prober_bad_config(path, n < 0 ? "it" : text, "number");
	return 0;
}

PROBER_FUNC int prober_config_int(const char *path, int64_t *value) {
	double v = (double)*value;
	int bad = prober_config_double(path, &v);
	if (bad) return bad;
	if (v < -9e15 || v > 9e15 || v != (double)(int64_t)v) return prober_bad_config(path, "it", "whole number");
	*value = (int64_t)v;
	return 0;
}

PROBER_FUNC int prober_config_bool(const char *path, bool *value) {
	char text[8];
	int n = prober_config(path, text, sizeof text);
	if (n == -PROBER_ENOENT) return 0;
	bool yes = n > 0 && prober_equal(text, (size_t)n, "true");
	if (!yes && !(n > 0 && prober_equal(text, (size_t)n, "false"))) return prober_bad_config(path, "it", "truth value");
	*value = yes;
	return 0;
}

/* prober_unit returns the seconds of the unit at s, 0 if it is unknown, and sets *used to its
   length. */
PROBER_FUNC double prober_unit(const char *s, size_t n, size_t *used) {
	*used = n > 1 && s[1] == 's' ? 2 : 1;
	if (*used == 2) return s[0] == 'm' ? 1e-3 : s[0] == 'u' ? 1e-6 : 0;
	return n == 0 ? 0 : s[0] == 's' ? 1 : s[0] == 'm' ? 60 : s[0] == 'h' ? 3600 : 0;
}

/* prober_config_seconds reads a duration such as "1m30s" or "250ms". The units are us, ms, s, m
   and h. */
PROBER_FUNC int prober_config_seconds(const char *path, double *value) {
	char text[64];
	int n = prober_config(path, text, sizeof text);
	if (n == -PROBER_ENOENT) return 0;
	double sum = 0;
	for (size_t i = 0, used = 0; n > 0 && i < (size_t)n; i += used) {
		size_t from = i;
		double part = 0;
		while (i < (size_t)n && (text[i] == '.' || (text[i] >= '0' && text[i] <= '9'))) i++;
		bool ok = prober_parse_double(text + from, i - from, &part);
		double unit = prober_unit(text + i, (size_t)n - i, &used);
		if (!ok || unit == 0) return prober_bad_config(path, text, "duration");
		sum += part * unit;
	}
	if (n <= 0) return prober_bad_config(path, "it", "duration");
	*value = sum;
	return 0;
}

/* prober_config_millis reads a duration as prober_config_seconds does, and rounds it to
   milliseconds. */
PROBER_FUNC int prober_config_millis(const char *path, int64_t *value) {
	double seconds = (double)*value / 1e3;
	int bad = prober_config_seconds(path, &seconds);
	if (bad) return bad;
	*value = (int64_t)(seconds * 1e3 + 0.5);
	return 0;
}

/* ---- JSON, for the request, prober_info and prober_http_head ---- */

PROBER_FUNC const char *prober_json_space(const char *p, const char *end) {
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
	return p;
}

/* prober_json_end returns the end of the value at p, or end if the value is malformed. */
PROBER_FUNC const char *prober_json_end(const char *p, const char *end) {
	int depth = 0;
	bool quoted = false;
	for (; p < end; p++) {
		if (quoted) {
			if (*p == '\\') p++;
			else if (*p == '"') quoted = false;
			else continue;
			if (!quoted && depth == 0) return p + 1;
			continue;
		}
		switch (*p) {
		case '"':
			quoted = true;
			break;
		case '{':
		case '[':
			depth++;
			break;
		case '}':
		case ']':
			if (depth-- <= 0) return p;
			if (depth == 0) return p + 1;
			break;
		case ',':
		case ' ':
		case '\n':
		case '\r':
		case '\t':
			if (depth == 0) return p;
		}
	}
	return end;
}

/* prober_json_member returns the value with a name in an object, or at an index of an array, and 0
   if there is none. It sets *after to the end of the value. */
PROBER_FUNC const char *prober_json_member(const char *p, const char *end, const char *name, size_t n, const char **after) {
	p = prober_json_space(p, end);
	if (p == end || (*p != '{' && *p != '[')) return 0;
	bool object = *p++ == '{';
	size_t index = 0;
	for (size_t i = 0; i < n; i++) index = index * 10 + (size_t)(name[i] - '0');
	for (size_t i = 0;; i++) {
		p = prober_json_space(p, end);
		if (p == end || *p == '}' || *p == ']') return 0;
		bool here = !object && i == index;
		if (object) {
			const char *key = p;
			p = prober_json_end(p, end);
			here = (size_t)(p - key) == n + 2 && memcmp(key + 1, name, n) == 0;
			p = prober_json_space(p, end);
			if (p == end || *p != ':') return 0;
			p = prober_json_space(p + 1, end);
		}
		*after = prober_json_end(p, end);
		if (here) return p;
		p = prober_json_space(*after, end);
		if (p < end && *p == ',') p++;
	}
}

PROBER_FUNC void prober_json_escape(prober_text *t, const char **p, const char *end) {
	static const char names[] = "n\nt\tr\rb\bf\f";
	char c = *(*p)++;
	for (int i = 0; names[i]; i += 2)
		if (names[i] == c) c = names[i + 1], i = sizeof names - 3;
	if (c != 'u' || end - *p < 4) {
		prober_add(t, &c, 1);
		return;
	}
	uint32_t rune = 0;
	for (int i = 0; i < 4; i++) {
		char d = *(*p)++;
		rune = rune * 16 + (uint32_t)(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
	}
	char utf8[3] = {(char)(0xe0 | rune >> 12), (char)(0x80 | (rune >> 6 & 0x3f)), (char)(0x80 | (rune & 0x3f))};
	if (rune >= 0xd800 && rune < 0xe000) prober_add(t, "?", 1); /* half of a surrogate pair */
	else if (rune >= 0x800) prober_add(t, utf8, 3);
	else if (rune >= 0x80) utf8[1] = (char)(0xc0 | rune >> 6), prober_add(t, utf8 + 1, 2);
	else utf8[2] = (char)rune, prober_add(t, utf8 + 2, 1);
}

/* prober_json writes the value at a dotted path of a JSON document as prober_config does. A number
   in the path is the index in an array. It returns the length, or -PROBER_ENOENT if there is no
   value. Bytes that exceed buf are dropped. */
PROBER_FUNC int prober_json(const char *doc, size_t size, const char *path, char *buf, size_t cap) {
	const char *p = doc, *end = doc + size;
	while (*path) {
		size_t n = 0;
		while (path[n] && path[n] != '.') n++;
		const char *after = end;
		p = prober_json_member(p, end, path, n, &after);
		if (!p) return -PROBER_ENOENT;
		end = after;
		path += n + (path[n] == '.');
	}
	if (cap == 0 || prober_equal(p, (size_t)(end - p), "null")) return -PROBER_ENOENT;
	prober_text t = {buf, 0, cap - 1};
	bool quoted = p < end && *p == '"';
	if (!quoted) prober_add(&t, p, (size_t)(end - p));
	for (p++; quoted && p < end && *p != '"';) {
		if (*p == '\\' && p + 1 < end) p++, prober_json_escape(&t, &p, end);
		else prober_add(&t, p++, 1);
	}
	buf[t.n] = 0;
	return (int)t.n;
}

/* prober_has_feature reports whether a request, which prober_request wrote, says that the plugin has a
   capability such as "kv". Ask it before using one that is optional in the manifest. */
PROBER_FUNC bool prober_has_feature(const char *request, size_t size, const char *feature) {
	char path[24], name[32];
	for (int i = 0; i < 100; i++) {
		prober_format(path, sizeof path, "host.features.%d", i);
		int n = prober_json(request, size, path, name, sizeof name);
		if (n < 0) return false;
		if (prober_equal(name, (size_t)n, feature)) return true;
	}
	return false;
}

/* ---- Documents for the host ---- */

enum { PROBER_MAX_DOC = 16384 }; /* bytes of the document of a request or of TLS options */

/* prober_pair is a name with a value, in an array that ends with {0}. */
typedef struct {
	const char *name, *value;
} prober_pair;

/* prober_tls has options of TLS: of prober_starttls_with, prober_dial_with and prober_http_send. Every
   field may be 0. */
typedef struct {
	const char *server_name;      /* sent, and checked in the certificate; by default the dialed host */
	const char *const *alpn;      /* protocols to offer, up to a 0; not for HTTP */
	bool insecure;                /* accept any certificate */
	const char *ca;               /* root certificates in PEM, instead of the system's */
	const char *credentials;      /* a name in prober.yaml, such as of a client certificate, which the operator must allow */
	const char *min_version;      /* "TLS10", "TLS11", "TLS12" or "TLS13" */
	const char *max_version;
} prober_tls;

/* prober_doc begins a document in a buffer that the next document overwrites. */
PROBER_FUNC prober_text prober_doc(void) {
	static char buf[PROBER_MAX_DOC];
	prober_text t = {buf, 0, sizeof buf};
	prober_add(&t, "{", 1);
	return t;
}

/* prober_add_name adds the name of a field, after a comma if needed. */
PROBER_FUNC void prober_add_name(prober_text *t, const char *name) {
	if (t->n > 0 && t->buf[t->n - 1] != '{') prober_add(t, ",", 1);
	prober_add_quoted(t, name, strlen(name));
	prober_add(t, ":", 1);
}

/* prober_add_field adds a field with a string, unless value is 0 or "". */
PROBER_FUNC void prober_add_field(prober_text *t, const char *name, const char *value) {
	if (!value || !*value) return;
	prober_add_name(t, name);
	prober_add_quoted(t, value, strlen(value));
}

/* prober_add_int adds a field with a number, unless value is 0. */
PROBER_FUNC void prober_add_int(prober_text *t, const char *name, int value) {
	if (value == 0) return;
	prober_add_name(t, name);
	prober_add_number(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0, 10, 0, ' ');
}

/* prober_add_true adds a field, if it is true. */
PROBER_FUNC void prober_add_true(prober_text *t, const char *name, bool value) {
	if (!value) return;
	prober_add_name(t, name);
	prober_add(t, "true", 4);
}

/* prober_add_pairs adds a field with an object of strings. */
PROBER_FUNC void prober_add_pairs(prober_text *t, const char *name, const prober_pair *pairs) {
	if (!pairs) return;
	prober_add_name(t, name);
	prober_add(t, "{", 1);
	for (; pairs->name; pairs++) {
		prober_add_name(t, pairs->name);
		prober_add_quoted(t, pairs->value, strlen(pairs->value));
	}
	prober_add(t, "}", 1);
}

/* prober_add_tls adds the fields of options of TLS. */
PROBER_FUNC void prober_add_tls(prober_text *t, const prober_tls *tls) {
	prober_add_field(t, "serverName", tls->server_name);
	prober_add_field(t, "verify", tls->insecure ? "none" : 0);
	prober_add_field(t, "ca", tls->ca);
	prober_add_field(t, "credentials", tls->credentials);
	prober_add_field(t, "minVersion", tls->min_version);
	prober_add_field(t, "maxVersion", tls->max_version);
	if (!tls->alpn || !*tls->alpn) return;
	prober_add_name(t, "alpn");
	for (size_t i = 0; tls->alpn[i]; i++) {
		prober_add(t, i ? "," : "[", 1);
		prober_add_quoted(t, tls->alpn[i], strlen(tls->alpn[i]));
	}
	prober_add(t, "]", 1);
}

/* prober_end ends a document. It returns false if the document is too long. */
PROBER_FUNC bool prober_end(prober_text *t) {
	prober_add(t, "}", 1);
	return t->n < t->cap;
}

/* ---- Connections ---- */

/* prober_dial connects to the target and returns a handle, or a negative number. The host closes
   open connections when the probe returns. */
PROBER_FUNC int prober_dial(void) { return prober_v1_net_dial("", 0, PROBER_UNTIL_DEADLINE); }

/* prober_dial_url connects to a URL such as "tcp://host:port" or "unix:///path". The schemes are
   tcp, udp, tls and unix. */
PROBER_FUNC int prober_dial_url(const char *url, int timeout_ms) {
	return prober_v1_net_dial(url, (uint32_t)strlen(url), timeout_ms);
}

/* prober_dial_options are options of a dial. Every field may be 0. */
typedef struct {
	const char *ip_family;      /* "4", "6", "4,6" or "6,4" */
	const char *source_address; /* one of the host's addresses */
	prober_tls tls;             /* for "tls://"; its ca is not used: call prober_starttls_with for that */
} prober_dial_options;

/* prober_add_option adds a parameter to the query of a URL, unless value is 0 or "". */
PROBER_FUNC void prober_add_option(prober_text *t, const char *name, const char *value) {
	if (!value || !*value) return;
	bool first = true;
	for (size_t i = 0; i < t->n; i++) first = first && t->buf[i] != '?';
	prober_add(t, first ? "?" : "&", 1);
	prober_add(t, name, strlen(name));
	prober_add(t, "=", 1);
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
		prober_add(t, plain ? value : "%", 1);
		if (!plain) prober_add_number(t, c, false, 16, 2, '0');
	}
}

/* prober_dial_with connects as prober_dial_url does, with options. The target is "tcp://" or "tls://". It
   returns -PROBER_EMSGSIZE if the URL with the options is too long. */
PROBER_FUNC int prober_dial_with(const char *url, const prober_dial_options *o, int timeout_ms) {
	static char buf[2048];
	prober_text t = {buf, 0, sizeof buf};
	prober_add(&t, url, strlen(url));
	prober_add_option(&t, "ipFamily", o->ip_family);
	prober_add_option(&t, "sourceAddress", o->source_address);
	prober_add_option(&t, "serverName", o->tls.server_name);
	prober_add_option(&t, "verify", o->tls.insecure ? "none" : 0);
	prober_add_option(&t, "credentials", o->tls.credentials);
	prober_add_option(&t, "minVersion", o->tls.min_version);
	prober_add_option(&t, "maxVersion", o->tls.max_version);
	for (size_t i = 0; o->tls.alpn && o->tls.alpn[i]; i++) prober_add_option(&t, "alpn", o->tls.alpn[i]);
	if (t.n == t.cap) return -PROBER_EMSGSIZE;
	return prober_v1_net_dial(buf, (uint32_t)t.n, timeout_ms);
}

/* prober_read returns the number of bytes read, 0 at the end of the data, or a negative number. */
PROBER_FUNC int prober_read(int conn, void *buf, size_t cap) {
	return prober_v1_net_read(conn, buf, (uint32_t)cap, PROBER_UNTIL_DEADLINE);
}

/* prober_read_full reads n bytes, or fewer if the data ends. It returns the number of bytes read,
   or a negative number. */
PROBER_FUNC int prober_read_full(int conn, void *buf, size_t n) {
	size_t done = 0;
	while (done < n) {
		int got = prober_read(conn, (char *)buf + done, n - done);
		if (got < 0) return got;
		if (got == 0) break;
		done += (size_t)got;
	}
	return (int)done;
}

/* prober_read_until reads until the data read ends with mark, the buffer is full or the data ends.
   It returns the number of bytes read, or a negative number. It suits answers that end with mark: if a
   server sends more behind it, such as a second line, the buffer has that too. */
PROBER_FUNC int prober_read_until(int conn, char *buf, size_t cap, const char *mark) {
	size_t done = 0, n = strlen(mark);
	while (done < cap) {
		int got = prober_read(conn, buf + done, cap - done);
		if (got < 0) return got;
		if (got == 0) break;
		done += (size_t)got;
		if (done >= n && memcmp(buf + done - n, mark, n) == 0) break;
	}
	return (int)done;
}

/* prober_write writes n bytes. It returns 0, or a negative number. */
PROBER_FUNC int prober_write(int conn, const void *data, size_t n) {
	size_t done = 0;
	while (done < n) {
		int put = prober_v1_net_write(conn, (const char *)data + done, (uint32_t)(n - done), PROBER_UNTIL_DEADLINE);
		if (put < 0) return put;
		done += (size_t)put;
	}
	return 0;
}

PROBER_FUNC int prober_write_text(int conn, const char *text) { return prober_write(conn, text, strlen(text)); }

/* prober_poll waits until one of n connections has data to read. It returns the index of that
   connection, or a negative number. */
PROBER_FUNC int prober_poll(const int32_t *conns, size_t n, int timeout_ms) {
	return prober_v1_net_poll(conns, (uint32_t)n, timeout_ms);
}

/* prober_info writes the addresses and timings of a connection as JSON, and returns the length. */
PROBER_FUNC int prober_info(int conn, char *buf, size_t cap) { return prober_v1_net_info(conn, buf, (uint32_t)cap); }

/* prober_starttls has the host start TLS on a connection. options is JSON such as
   {"serverName":"db","verify":"none"}, or "". */
PROBER_FUNC int prober_starttls(int conn, const char *options) {
	return prober_v1_net_starttls(conn, options, (uint32_t)strlen(options));
}

/* prober_starttls_with is prober_starttls with a struct. It returns -PROBER_EMSGSIZE if the options are too
   long. */
PROBER_FUNC int prober_starttls_with(int conn, const prober_tls *tls) {
	prober_text t = prober_doc();
	prober_add_tls(&t, tls);
	return prober_end(&t) ? prober_v1_net_starttls(conn, t.buf, (uint32_t)t.n) : -PROBER_EMSGSIZE;
}

PROBER_FUNC int prober_close(int conn) { return prober_v1_net_close(conn); }

/* ---- HTTP, DNS, ICMP and kv: the manifest must request each capability ---- */

/* prober_http sends an HTTP request, described by JSON such as
   {"url":"http:///healthz","method":"GET"}. A URL without a host is for the target. It returns a
   handle when the head of the response is received, or a negative number. */
PROBER_FUNC int prober_http(const char *request, const void *body, size_t n) {
	return prober_v1_http_do(request, (uint32_t)strlen(request), body, (uint32_t)n);
}

/* prober_http_request is a request of prober_http_send. All fields but url may be 0. */
typedef struct {
	const char *url;            /* a URL without a host is for the target */
	const char *method;         /* "GET" by default */
	const prober_pair *headers; /* up to {0} */
	int redirects;              /* how many are followed; each must be granted */
	int timeout_ms;             /* of the whole exchange with the body; 0 means until the deadline */
	prober_tls tls;
	bool http2;                 /* offer HTTP/2 over TLS */
	const char *decompress;     /* "gzip" or "deflate": the host decodes the body */
	const char *ip_family;      /* "4", "6", "4,6" or "6,4" */
	const char *source_address; /* one of the host's addresses */
	const char *proxy;          /* "http://HOST:PORT", which must be granted too */
	const prober_pair *proxy_headers; /* of the CONNECT request, up to {0} */
} prober_http_request;

/* prober_http_send is prober_http with a struct. It returns -PROBER_EMSGSIZE if the request without its body
   is longer than PROBER_MAX_DOC. */
PROBER_FUNC int prober_http_send(const prober_http_request *r, const void *body, size_t n) {
	prober_text t = prober_doc();
	prober_add_field(&t, "url", r->url);
	prober_add_field(&t, "method", r->method);
	prober_add_pairs(&t, "headers", r->headers);
	prober_add_int(&t, "redirects", r->redirects);
	prober_add_int(&t, "timeoutMs", r->timeout_ms);
	prober_add_name(&t, "tls");
	prober_add(&t, "{", 1);
	prober_add_tls(&t, &r->tls);
	prober_add(&t, "}", 1);
	prober_add_true(&t, "http2", r->http2);
	prober_add_field(&t, "decompress", r->decompress);
	prober_add_field(&t, "ipFamily", r->ip_family);
	prober_add_field(&t, "sourceAddress", r->source_address);
	prober_add_field(&t, "proxy", r->proxy);
	prober_add_pairs(&t, "proxyHeaders", r->proxy_headers);
	return prober_end(&t) ? prober_v1_http_do(t.buf, (uint32_t)t.n, body, (uint32_t)n) : -PROBER_EMSGSIZE;
}

/* prober_http_head writes the status, headers and timings of a response as JSON, and returns the
   length. */
PROBER_FUNC int prober_http_head(int answer, char *buf, size_t cap) {
	return prober_v1_http_head(answer, buf, (uint32_t)cap);
}

/* prober_http_status returns the status of a response, or a negative number. */
PROBER_FUNC int prober_http_status(int answer) {
	static char head[4096];
	char text[16];
	double status;
	int n = prober_http_head(answer, head, sizeof head);
	if (n < 0) return n;
	if (n > (int)sizeof head) return -PROBER_EMSGSIZE;
	n = prober_json(head, (size_t)n, "status", text, sizeof text);
	if (n < 0 || !prober_parse_double(text, (size_t)n, &status)) return -PROBER_EPROTO;
	return (int)status;
}

/* prober_http_header writes a line of a header, which prober_json would find in the head only joined with the
   others: line 0 is the first one of the name, which is in lower case. It returns the length, or
   -PROBER_ENOENT. */
PROBER_FUNC int prober_http_header(const char *head, size_t size, const char *name, size_t line, char *buf, size_t cap) {
	const char *end = head + size, *after = end, *rest = end;
	const char *lines = prober_json_member(head, end, "repeated", 8, &after);
	for (size_t i = 0, seen = 0; lines && cap > 0; i++) {
		char index[24], found[128];
		size_t n = prober_format(index, sizeof index, "%zu", i);
		const char *item = prober_json_member(lines, after, index, n, &rest);
		if (!item) break;
		int got = prober_json(item, (size_t)(rest - item), "name", found, sizeof found);
		if (got >= 0 && prober_equal(found, (size_t)got, name) && seen++ == line)
			return prober_json(item, (size_t)(rest - item), "value", buf, cap);
	}
	const char *headers = prober_json_member(head, end, "headers", 7, &after);
	const char *value = headers ? prober_json_member(headers, after, name, strlen(name), &rest) : 0;
	if (!value || line > 0) return -PROBER_ENOENT;
	return prober_json(value, (size_t)(rest - value), "", buf, cap);
}

/* prober_http_read reads from the body. It returns the number of bytes read, 0 at the end, or a
   negative number. */
PROBER_FUNC int prober_http_read(int answer, void *buf, size_t cap) {
	return prober_v1_http_read(answer, buf, (uint32_t)cap, PROBER_UNTIL_DEADLINE);
}

PROBER_FUNC int prober_http_close(int answer) { return prober_v1_http_close(answer); }

/* prober_dns looks up a name. request is JSON such as {"name":"db.internal","type":"A"}. It writes
   the answer as JSON and returns its length. If that is above cap, nothing is written. */
PROBER_FUNC int prober_dns(const char *request, char *buf, size_t cap) {
	int h = prober_v1_dns_lookup(request, (uint32_t)strlen(request), PROBER_UNTIL_DEADLINE);
	return h < 0 ? h : prober_v1_dns_read(h, buf, (uint32_t)cap, PROBER_UNTIL_DEADLINE);
}

/* prober_dns_request is a question of prober_dns_ask. All fields but name may be 0. */
typedef struct {
	const char *name;
	const char *type;   /* "A" by default */
	const char *server; /* "HOST", "HOST:PORT" or "target"; the system's by default */
} prober_dns_request;

/* prober_dns_ask is prober_dns with a struct. */
PROBER_FUNC int prober_dns_ask(const prober_dns_request *r, char *buf, size_t cap) {
	prober_text t = prober_doc();
	prober_add_field(&t, "name", r->name);
	prober_add_field(&t, "type", r->type);
	prober_add_field(&t, "server", r->server);
	if (!prober_end(&t)) return -PROBER_EMSGSIZE;
	int h = prober_v1_dns_lookup(t.buf, (uint32_t)t.n, PROBER_UNTIL_DEADLINE);
	return h < 0 ? h : prober_v1_dns_read(h, buf, (uint32_t)cap, PROBER_UNTIL_DEADLINE);
}

/* prober_echo sends an ICMP echo request: ping. request is JSON such as {"payload":1400}, or "{}" for the
   target. It writes the reply as JSON and returns its length, or a negative number if none comes. If the
   length is above cap, nothing is written. */
PROBER_FUNC int prober_echo(const char *request, char *buf, size_t cap) {
	int h = prober_v1_icmp_echo(request, (uint32_t)strlen(request), PROBER_UNTIL_DEADLINE);
	return h < 0 ? h : prober_v1_icmp_read(h, buf, (uint32_t)cap);
}

/* prober_echo_request is a request of prober_ping. Every field may be 0. */
typedef struct {
	const char *host;           /* a name or an address, instead of the target */
	const char *ip_family;      /* "4", "6", "4,6" or "6,4" */
	const char *source_address; /* one of the host's addresses */
	int payload;                /* bytes after the header; 56 by default */
	int hop_limit;              /* the TTL of IPv4; the system's by default */
	bool dont_fragment;
} prober_echo_request;

/* prober_ping is prober_echo with a struct. */
PROBER_FUNC int prober_ping(const prober_echo_request *r, char *buf, size_t cap) {
	prober_text t = prober_doc();
	prober_add_field(&t, "host", r->host);
	prober_add_field(&t, "ipFamily", r->ip_family);
	prober_add_field(&t, "sourceAddress", r->source_address);
	prober_add_int(&t, "payload", r->payload);
	prober_add_int(&t, "hopLimit", r->hop_limit);
	prober_add_true(&t, "dontFragment", r->dont_fragment);
	if (!prober_end(&t)) return -PROBER_EMSGSIZE;
	int h = prober_v1_icmp_echo(t.buf, (uint32_t)t.n, PROBER_UNTIL_DEADLINE);
	return h < 0 ? h : prober_v1_icmp_read(h, buf, (uint32_t)cap);
}

/* prober_kv_get, _set and _delete access values that the host keeps for the next attempts of the
   same probe. prober_kv_get returns the length of the value, or -PROBER_ENOENT. If the length is
   above cap, nothing is written. */
PROBER_FUNC int prober_kv_get(const char *key, char *buf, size_t cap) {
	return prober_v1_kv_get(key, (uint32_t)strlen(key), buf, (uint32_t)cap);
}

PROBER_FUNC int prober_kv_set(const char *key, const void *value, size_t n) {
	return prober_v1_kv_set(key, (uint32_t)strlen(key), value, (uint32_t)n);
}

PROBER_FUNC int prober_kv_delete(const char *key) { return prober_v1_kv_delete(key, (uint32_t)strlen(key)); }

/* prober_file_stat, _file_statfs and _file_list get the JSON of a file, of its file system, and of the entries of a
   folder: {"type": "file", "size": 10, …}, {"total": 100, …}, {"entries": [{"name": "a", …}]}. prober_json reads it.
   They return its length. If the length is above cap, nothing is written. The manifest requests the capability
   "files"; a path is absolute, without "." and ".." in it. */
PROBER_FUNC int prober_file_stat(const char *path, char *buf, size_t cap) {
	return prober_v1_files_stat(path, (uint32_t)strlen(path), buf, (uint32_t)cap);
}

PROBER_FUNC int prober_file_statfs(const char *path, char *buf, size_t cap) {
	return prober_v1_files_statfs(path, (uint32_t)strlen(path), buf, (uint32_t)cap);
}

PROBER_FUNC int prober_file_list(const char *path, char *buf, size_t cap) {
	return prober_v1_files_list(path, (uint32_t)strlen(path), buf, (uint32_t)cap);
}

/* prober_file_read reads a regular file from an offset on, and returns the number of bytes; 0 is the end. */
PROBER_FUNC int prober_file_read(const char *path, int64_t offset, void *buf, size_t cap) {
	return prober_v1_files_read(path, (uint32_t)strlen(path), offset, buf, (uint32_t)cap);
}

#ifdef __cplusplus
}
#endif

#endif
