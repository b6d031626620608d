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

/* prober_parse_double parses n bytes as a decimal number. It returns false if they are not one. */
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

/* ---- Connections ---- */

/* prober_dial connects to the target and returns a handle, or a negative number. The host closes
   open connections when the probe returns. */
PROBER_FUNC int prober_dial(void) { return prober_v1_net_dial("", 0, PROBER_UNTIL_DEADLINE); }

/* prober_dial_url connects to a URL such as "tcp://host:port" or "unix:///path". The schemes are
   tcp, udp, tls and unix. */
PROBER_FUNC int prober_dial_url(const char *url, int timeout_ms) {
	return prober_v1_net_dial(url, (uint32_t)strlen(url), timeout_ms);
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
   It returns the number of bytes read, or a negative number. */
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

PROBER_FUNC int prober_close(int conn) { return prober_v1_net_close(conn); }

/* ---- HTTP, DNS, ICMP and kv: the manifest must request each capability ---- */

/* prober_http sends an HTTP request, described by JSON such as
   {"url":"http:///healthz","method":"GET"}. A URL without a host is for the target. It returns a
   handle when the head of the response is received, or a negative number. */
PROBER_FUNC int prober_http(const char *request, const void *body, size_t n) {
	return prober_v1_http_do(request, (uint32_t)strlen(request), body, (uint32_t)n);
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

/* prober_echo sends an ICMP echo request: ping. request is JSON such as {"payload":1400}, or "{}" for the
   target. It writes the reply as JSON and returns its length, or a negative number if none comes. If the
   length is above cap, nothing is written. */
PROBER_FUNC int prober_echo(const char *request, char *buf, size_t cap) {
	int h = prober_v1_icmp_echo(request, (uint32_t)strlen(request), PROBER_UNTIL_DEADLINE);
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

#ifdef __cplusplus
}
#endif

#endif
