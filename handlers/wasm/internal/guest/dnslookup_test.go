package guest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseResolvConf(t *testing.T) {
	for text, want := range map[string][]string{
		"": {"127.0.0.1:53"},
		"# nameserver 10.0.0.1\nsearch a b\nnameserver\nnameserver nonsense\n": {"127.0.0.1:53"},
		"nameserver 10.0.0.2 # ours\n nameserver\tfd00::2\noptions ndots:5":    {"10.0.0.2:53", "[fd00::2]:53"},
		"nameserver fe80::1%eth0": {"[fe80::1%eth0]:53"},
		"nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\nnameserver ::1": {"10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"},
	} {
		if diff := cmp.Diff(want, parseResolvConf(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestNewQuestionErrors(t *testing.T) {
	for _, name := range []string{"", "..", "a..b", "a b", "-a.test", "10.0.0.1", "0x7f.1", "2130706433", `a\001.test`} {
		if _, err := newQuestion(name, "A", 1); err == nil || err.Error() != fmt.Sprintf("dns: %q is not a name", name) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for name, want := range map[string]string{".": "", "DB.test.": "db.test", "_sip._tcp.test": "_sip._tcp.test"} {
		if q, err := newQuestion(name, "SRV", 1); err != nil || q.Name() != want {
			t.Errorf("%q: got %q, %v", name, q.Name(), err)
		}
	}
}
