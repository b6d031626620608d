/* Dns asks its target for a name. */
#include "prober.h"

PROBER_EXPORT(probe)
prober_result probe(void) {
	char buf[1024], rcode[16] = "", data[64] = "";
	int n = prober_dns("{\"name\":\"db.test\",\"type\":\"A\",\"server\":\"target\"}", buf, sizeof buf);
	if (n < 0) return prober_failure("%s", prober_error_text());
	prober_json(buf, (size_t)n, "rcode", rcode, sizeof rcode);
	prober_json(buf, (size_t)n, "answers.0.data", data, sizeof data);
	return prober_success("%s %s", rcode, data);
}
