package importcmd

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// condition is a condition of Gatus, such as [STATUS] == 200.
type condition struct {
	at              position
	left, op, right string
}

var comparison = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^\s*(.*?)\s+(==|!=|<=|>=|<|>)\s+(.*?)\s*$`)
})

func parseCondition(text string, at position) (condition, bool) {
	m := comparison().FindStringSubmatch(text)
	if m == nil {
		return condition{}, false
	}
	return condition{at, m[1], m[2], m[3]}, true
}

// function returns the name of the function at the right; "" for a value.
func (x condition) function() string {
	for _, name := range []string{"any", "pat", "len", "has"} {
		if strings.HasPrefix(x.right, name+"(") && strings.HasSuffix(x.right, ")") {
			return name
		}
	}
	return ""
}

// argument returns the text between the parentheses of the function.
func (x condition) argument() string {
	return strings.TrimSuffix(x.right[len(x.function())+1:], ")")
}

// values returns the values at the right; nothing for a pattern.
func (x condition) values() (all []string) {
	switch x.function() {
	case "":
		return []string{x.right}
	case "any":
		for v := range strings.SplitSeq(x.argument(), ",") {
			all = append(all, strings.TrimSpace(v))
		}
	}
	return all
}

// number returns a rule about a number.
func (x condition) number() (func(int) bool, bool) {
	var wanted []int
	for _, text := range x.values() {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, false
		}
		wanted = append(wanted, n)
	}
	if len(wanted) == 0 {
		return nil, false
	}
	in := func(n int) bool { return slices.Contains(wanted, n) }
	switch {
	case x.op == "==":
		return in, true
	case x.op == "!=":
		return func(n int) bool { return !in(n) }, true
	case len(wanted) > 1:
		return nil, false
	}
	return map[string]func(int) bool{
		"<": func(n int) bool { return n < wanted[0] }, "<=": func(n int) bool { return n <= wanted[0] },
		">": func(n int) bool { return n > wanted[0] }, ">=": func(n int) bool { return n >= wanted[0] },
	}[x.op], true
}

// expression returns the value, the values or the pattern at the right as a regular expression.
func (x condition) expression() (string, bool) {
	switch x.function() {
	case "", "any":
		var quoted []string
		for _, v := range x.values() {
			quoted = append(quoted, regexp.QuoteMeta(v))
		}
		if len(quoted) == 1 {
			return "^" + quoted[0] + "$", true
		}
		return "^(" + strings.Join(quoted, "|") + ")$", true
	case "pat":
		return glob(x.argument()), true
	}
	return "", false
}

// glob returns a pattern with stars as a regular expression.
func glob(pattern string) string {
	text := regexp.QuoteMeta(pattern)
	before, after := "^", "$"
	if rest, ok := strings.CutPrefix(text, `\*`); ok {
		text, before = rest, ""
	}
	if rest, ok := strings.CutSuffix(text, `\*`); ok {
		text, after = rest, ""
	}
	return before + strings.NewReplacer(`\*`, `[\s\S]*`, `\?`, `[\s\S]`).Replace(text) + after
}

// bodies uses conditions about the body of a response.
func (c *gatusCheck) bodies() {
	var match, notMatch []string
	var values []fields
	c.conditions = slices.DeleteFunc(c.conditions, func(x condition) bool {
		if x.left == "[BODY]" {
			text, ok := x.expression()
			switch {
			case !ok:
			case x.op == "==":
				match = append(match, text)
				return true
			case x.op == "!=":
				notMatch = append(notMatch, text)
				return true
			}
			return false
		}
		rule, ok := c.bodyValue(x)
		if ok {
			values = append(values, rule)
		}
		return ok
	})
	c.config = c.config.with("failIfBodyNotMatchesRegexp", match).with("failIfBodyMatchesRegexp", notMatch).with("jsonPath", values)
}

var simplePath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\[\d+\])*(\.?[A-Za-z0-9_-]+(\[\d+\])*)(\.[A-Za-z0-9_-]+(\[\d+\])*)*$`)
})

// bodyValue returns a rule about a value of the body.
func (c *gatusCheck) bodyValue(x condition) (rule fields, ok bool) {
	inside, has := strings.CutPrefix(x.left, "has(")
	inside = strings.TrimSuffix(inside, ")")
	path, found := strings.CutPrefix(inside, "[BODY]")
	if !found || !simplePath().MatchString(path) {
		return nil, false
	}
	rule = fields{{"path", "$" + path}}
	if has {
		return rule.set("matches", ""), x.op == "==" && x.right == "true"
	}
	n, err := strconv.ParseFloat(x.right, 64)
	isNumber := err == nil && n > -1e15 && n < 1e15
	switch {
	case x.op == "==" && x.function() == "":
		return rule.set("equals", scalar(x.right)), true
	case x.op == "==":
		text, ok := x.expression()
		return rule.set("matches", text), ok
	case !isNumber:
		return nil, false
	case x.op == ">" || x.op == "<":
		c.p.differs(x.at, "the limit %s is allowed too", x.right)
	}
	switch x.op {
	case ">", ">=":
		return rule.set("min", n), true
	case "<", "<=":
		return rule.set("max", n), true
	}
	return nil, false
}

// scalar returns text as a value of JSON.
func scalar(text string) any {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > -1e15 && n < 1e15 {
		return n
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	}
	return text
}
