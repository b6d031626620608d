package importcmd

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// hostCheck is a test of this host by the plugin host.
type hostCheck struct {
	part   string // tells the test from others of its check
	config fields
	grants []string
}

// host adds a group for a test of this host. It returns false if the test has no equal.
func (c *monitCheck) host(at position, words []string, failures int) bool {
	test := c.hostTest(words)
	if test == nil {
		return false
	}
	c.addHost(at, test, failures)
	return true
}

func (c *monitCheck) addHost(at position, test *hostCheck, failures int) {
	c.p.grant("host", test.grants...)
	c.add(at, test.part, spec{action: plugin("host", test.config), timeout: 5 * time.Second, failureLimit: failures}, localhost)
	c.exists = true
}

// existence adds the test that a process or a file exists, which monit makes of each, unless another test implies it.
func (c *monitCheck) existence() {
	if c.exists || c.kind != "process" && c.kind != "file" {
		return
	}
	if test := c.hostTest([]string{"does", "not", "exist"}); test != nil {
		c.addHost(c.at, test, 1)
	}
}

// hostTest returns a test without its action; nil if it has no equal.
func (c *monitCheck) hostTest(words []string) *hostCheck {
	switch c.kind {
	case "system":
		return systemTest(words)
	case "filesystem":
		return diskTest(c.place, words)
	case "process":
		if isMissing(words) {
			return processTest(c.by, c.place)
		}
	case "file":
		return fileTest(c.place, words)
	}
	return nil
}

// isMissing reports whether a test is that something does not exist.
func isMissing(words []string) bool {
	text := strings.Join(words, " ")
	return text == "does not exist" || text == "not exist"
}

// hostBound returns the bound of words such as > 80%: the name of its field for the plugin, and the number.
func hostBound(words []string, percent bool) (side string, limit float64, ok bool) {
	if len(words) == 3 && words[2] == "%" {
		words = []string{words[0], words[1] + "%"}
	}
	if len(words) != 2 {
		return "", 0, false
	}
	switch words[0] {
	case ">", "gt", "greater":
		side = "max"
	case "<", "lt", "less":
		side = "min"
	default:
		return "", 0, false
	}
	text, isPercent := strings.CutSuffix(words[1], "%")
	limit, err := strconv.ParseFloat(text, 64)
	return side, limit, err == nil && isPercent == percent && limit >= 0 && limit < 1e12
}

// systemTest returns a test of load, memory or swap.
func systemTest(words []string) *hostCheck {
	text := strings.Join(words, " ")
	for minutes, field := range map[string]string{"1min": "one", "5min": "five", "15min": "fifteen"} {
		rest, ok := strings.CutPrefix(text, "loadavg ( "+minutes+" ) ")
		if !ok {
			continue
		}
		rest, perCore := strings.CutPrefix(rest, "per core ")
		side, limit, ok := hostBound(strings.Fields(rest), false)
		if !ok {
			return nil
		}
		t := &hostCheck{part: "load", config: fields{{"load", fields{{field, fields{{side, limit}}}}}}, grants: []string{"file:///proc/loadavg"}}
		if perCore {
			t.config = fields{{"load", fields{{"perCPU", true}, {field, fields{{side, limit}}}}}}
			t.grants = append(t.grants, "file:///proc/stat")
		}
		return t
	}
	for _, what := range [][2]string{{"memory", "used"}, {"swap", "swapUsed"}} {
		rest, ok := strings.CutPrefix(strings.Replace(text, " usage ", " ", 1), what[0]+" ")
		if !ok {
			continue
		}
		if side, limit, ok := hostBound(strings.Fields(rest), true); ok {
			return &hostCheck{what[0], fields{{"memory", fields{{what[1], fields{{side, limit}}}}}}, []string{"file:///proc/meminfo"}}
		}
	}
	return nil
}

// diskTest returns a test of the space or the inodes of a file system.
func diskTest(place string, words []string) *hostCheck {
	if !isGrantable(place) || len(words) < 3 {
		return nil
	}
	field, known := map[string]string{"space": "used", "inode": "inodesUsed", "inodes": "inodesUsed"}[words[0]]
	rest := words[1:]
	free := rest[0] == "free"
	if free || rest[0] == "usage" {
		rest = rest[1:]
	}
	side, limit, ok := hostBound(rest, true)
	if !known || !ok || limit > 100 {
		return nil
	}
	if free { // as the used part
		side, limit = map[string]string{"min": "max", "max": "min"}[side], 100-limit
	}
	return &hostCheck{words[0], fields{{"disk", []fields{{{"path", place}, {"readOnly", true}, {field, fields{{side, limit}}}}}}}, []string{"file://" + place}}
}

// processTest returns the test that a process runs.
func processTest(by, place string) *hostCheck {
	t := &hostCheck{part: "process", config: fields{{"process", []fields{{{by, place}}}}}, grants: []string{"file:///proc/*/stat"}}
	switch {
	case by == "pidfile" && isGrantable(place):
		t.grants = append(t.grants, "file://"+place)
	case by == "cmdline" && place != "" && regexp.QuoteMeta(place) == place:
		t.grants = append(t.grants, "file:///proc", "file:///proc/*/cmdline")
	default:
		return nil
	}
	return t
}

// fileTest returns a test of a file.
func fileTest(place string, words []string) *hostCheck {
	if !isGrantable(place) {
		return nil
	}
	file := fields{{"path", place}}
	part := "file"
	switch {
	case isMissing(words):
	case len(words) == 1 && (words[0] == "exist" || words[0] == "exists"):
		file = file.set("state", "absent")
	case len(words) == 4 && (words[0] == "timestamp" || words[0] == "mtime") && words[1] == ">":
		unit := map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[strings.TrimSuffix(words[3], "s")]
		n, err := strconv.Atoi(words[2])
		if err != nil || n < 1 || n > 10_000 || unit == 0 {
			return nil
		}
		part, file = "age", file.set("age", fields{{"fail", (time.Duration(n) * unit).String()}})
	case len(words) == 4 && words[0] == "size":
		side, limit, ok := hostBound(words[1:3], false)
		factor := map[string]float64{"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}[words[3]]
		if !ok || factor == 0 {
			return nil
		}
		part, file = "size", file.set("size", fields{{side, limit * factor}})
	default:
		return nil
	}
	return &hostCheck{part, fields{{"file", []fields{file}}}, []string{"file://" + place}}
}

// isGrantable reports whether a grant and a config can name a path.
func isGrantable(place string) bool {
	return path.IsAbs(place) && path.Clean(place) == place && len(place) <= 1000 && !strings.ContainsAny(place, "*\x00") && !strings.Contains(place, "${")
}
