/* The guest of the benchmarks: it reads its config and succeeds. */
#include "prober.h"

PROBER_EXPORT(probe)
prober_result probe(void) {
	char name[64] = "world";
	prober_config("name", name, sizeof name);
	return prober_success("hello %s", name);
}
