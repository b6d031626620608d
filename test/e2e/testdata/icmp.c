/* Icmp pings its target. */
#include "prober.h"

PROBER_EXPORT(probe)
prober_result probe(void) {
	char buf[512], remote[64] = "", payload[16] = "";
	int n = prober_echo("{\"payload\":1400}", buf, sizeof buf);
	if (n < 0) return prober_failure("%s", prober_error_text());
	prober_json(buf, (size_t)n, "remote", remote, sizeof remote);
	prober_json(buf, (size_t)n, "payload", payload, sizeof payload);
	return prober_success("%s replied with %s bytes", remote, payload);
}
