/* Files describes and reads the file that its config names, and lists its folder. */
#include "prober.h"

PROBER_EXPORT(probe)
prober_result probe(void) {
	char path[256] = "", folder[256] = "", buf[4096], size[32] = "", first[64] = "", total[32] = "";
	if (prober_config("path", path, sizeof path) < 0 || prober_config("folder", folder, sizeof folder) < 0) return prober_error("no config");
	int n = prober_file_stat(path, buf, sizeof buf);
	if (n < 0) return prober_failure("%s", prober_error_text());
	prober_json(buf, (size_t)n, "size", size, sizeof size);
	n = prober_file_list(folder, buf, sizeof buf);
	if (n < 0) return prober_failure("%s", prober_error_text());
	prober_json(buf, (size_t)n, "entries.0.name", first, sizeof first);
	n = prober_file_statfs(folder, buf, sizeof buf);
	if (n < 0) return prober_failure("%s", prober_error_text());
	prober_json(buf, (size_t)n, "total", total, sizeof total);
	n = prober_file_read(path, 2, buf, sizeof buf - 1);
	if (n < 0) return prober_failure("%s", prober_error_text());
	buf[n] = 0;
	return prober_success("%s bytes, %s, %s, %s", size, first, buf, total[0] > '0' ? "a disk" : "no disk");
}
