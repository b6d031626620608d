package clientcmd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const evilCertificate = `{"subject":"E","names":["E","E"],"issuer":"E","serial":"E","sha256":"E","verification":"E","why":"E",
	"probes":[{"namespace":"E","pod":"E","container":"E","kind":"E","verification":"E","why":"E"}]}`

// certificateProbe returns a probe as JSON that sees a certificate.
func certificateProbe(namespace, pod string, position int, verification, why string) string {
	return fmt.Sprintf(`{"namespace":%q,"pod":%q,"container":"web","kind":"readiness","position":%d,"sent":2,"verification":%q,"why":%q,"seen":%q}`,
		namespace, pod, position, verification, why, time.Now().Add(-10*time.Minute).Format(time.RFC3339))
}

func TestCertificatesAreShown(t *testing.T) {
	list := fmt.Sprintf(`{"items":[
		{"subject":"CN=shop.test","names":["shop.test","10.0.0.7"],"moreNames":3,"issuer":"CN=Shop CA","notBefore":"2026-09-01T12:00:00Z","notAfter":"2026-12-03T12:00:00Z","daysLeft":3,
		 "serial":"0a1b","sha256":"aa11","verification":"not verified","why":"expired","probeCount":2,"probes":[%s,%s]},
		{"subject":"CN=Shop CA","names":[],"issuer":"CN=Root","notBefore":"2024-09-01T12:00:00Z","notAfter":"2030-12-03T12:00:00Z","daysLeft":1464,
		 "serial":"02","sha256":"bb22","verification":"verified","probeCount":1,"probes":[%s]}]}`,
		certificateProbe("db", "db-0", 1, "not verified", "expired"), certificateProbe("shop", "web-0", 1, "verified", ""), certificateProbe("shop", "web-0", 2, "verified", ""))
	a := newFakeAgent(t, map[string]string{
		"GET /api/v1/certificates": list,
		"GET /api/v1/pods":         `{"items":[{"metadata":{"namespace":"shop","name":"web-0","labels":{"app":"web"}}},{"metadata":{"namespace":"db","name":"db-0"}}]}`,
	})
	for args, want := range map[string]string{
		"get certificates": "DAYS   NAME         ENDS         VERIFICATION   PROBES   ISSUER\n" +
			"3      shop.test    2026-12-03   not verified   2        CN=Shop CA\n" +
			"1464   CN=Shop CA   2030-12-03   verified       1        CN=Root\n",
		"get certificates shop.test -o wide": "DAYS   NAME        ENDS         VERIFICATION   PROBES   ISSUER       PLACE    SEEN   SEEN BY                                          NAMES                           SUBJECT        BEGINS       SERIAL   SHA256   WHY\n" +
			"3      shop.test   2026-12-03   not verified   2        CN=Shop CA   1 of 2   10m    db/db-0/web/readiness shop/web-0/web/readiness   shop.test 10.0.0.7 and 3 more   CN=shop.test   2026-09-01   0a1b     aa11     expired\n",
		"get certificates -l app=web --no-headers":             "3      shop.test    2026-12-03   verified   1     CN=Shop CA\n1464   CN=Shop CA   2030-12-03   verified   1     CN=Root\n",
		"get certificates -l !app --no-headers":                "3     shop.test   2026-12-03   not verified   1     CN=Shop CA\n",
		"get certs bb* -o name":                                "certificate/bb22\n",
		"get cert bb22 db-0 -o name":                           "certificate/aa11\ncertificate/bb22\n",
		"get certificates certificate/bb22 -o name":            "certificate/bb22\n",
		"get certificates CN=* -o jsonpath={.items[*].serial}": "0a1b 02\n",
	} {
		if code, stdout, stderr := prober(a.URL, strings.Fields(args)...); code != 0 || stdout != want {
			t.Errorf("%s: exit code %d, %s\n%s\nwant\n%s", args, code, stderr, stdout, want)
		}
	}
	if code, _, stderr := prober(a.URL, "get", "certificates", "none.test"); code != 1 || stderr == "" {
		t.Errorf("of an unknown name: exit code %d, %s", code, stderr)
	}
}
