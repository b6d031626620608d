package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// assertion has the conditions for the values at one field or path.
type assertion struct {
	name   string   // name in messages, and label of its metric
	field  string   // dotted path, or ""
	path   jsonPath // used if field is ""
	count  bool     // compare the number of values
	levels []level  // the worst first
}

// level has the conditions of one result.
type level struct {
	result probe.Result
	tests  []test // a value is at this level if one of them is true
}

// assertions reads the assertions of the config: the one at the top, and those in the list.
func assertions(c *sdk.Config) ([]assertion, error) {
	var all []assertion
	if c.Has("field") || c.Has("jsonPath") {
		a, err := newAssertion(c)
		if err != nil {
			return nil, fmt.Errorf("config%w", err)
		}
		all = append(all, a)
	}
	list := value(c.JSON("assertions"))
	if list == nil {
		list = value("[]")
	}
	i := 0
	var err error
	list.items(func(item value) bool {
		var one *sdk.Config
		var a assertion
		if one, err = sdk.NewConfig(item); err == nil {
			if a, err = newAssertion(one); err == nil {
				err = one.Err()
			}
		} else {
			err = fmt.Errorf(": must be an object")
		}
		if err != nil {
			err = fmt.Errorf("config.assertions[%d]%w", i, err)
		}
		all = append(all, a)
		i++
		return err == nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("config: must have a field, a jsonPath or assertions")
	}
	return all, err
}

// newAssertion reads an assertion. Its errors begin with the path of a field.
func newAssertion(c *sdk.Config) (assertion, error) {
	a := assertion{field: c.String("field", ""), count: c.Bool("count", false)}
	source := c.String("jsonPath", "")
	var err error
	switch {
	case c.Has("field") && c.Has("jsonPath"):
		return a, errors.New(".jsonPath: there is a field too")
	case c.Has("field"):
		a.name = c.String("name", a.field)
		if a.count {
			return a, errors.New(".count: needs a jsonPath")
		}
	default:
		a.name = c.String("name", source)
		if a.path, err = parsePath(source); err != nil {
			return a, fmt.Errorf(".jsonPath: %w", err)
		}
	}
	for _, l := range []struct {
		name   string
		result probe.Result
	}{{"fail", probe.Failure}, {"warn", probe.Warning}} {
		tests, err := tests(c, l.name)
		if err != nil {
			return a, err
		}
		a.levels = append(a.levels, level{l.result, tests})
	}
	return a, nil
}

// tests reads the conditions of a level: "fail" has allowed values, "failIf" disallowed ones.
func tests(c *sdk.Config, level string) (all []test, err error) {
	if c.Has(level + ".equals") {
		all = append(all, test{"!=", c.String(level+".equals", ""), nil})
	}
	for _, bound := range []struct{ name, operator string }{{"min", "<"}, {"max", ">"}} {
		if path := level + "." + bound.name; c.Has(path) {
			all = append(all, test{bound.operator, strconv.FormatFloat(c.Float(path, 0), 'g', -1, 64), nil})
		}
	}
	if low, high := c.Float(level+".min", 0), c.Float(level+".max", 0); c.Has(level+".min") && c.Has(level+".max") && low > high {
		return nil, fmt.Errorf(".%s: min %v is above max %v: nothing could be in between", level, low, high)
	}
	name := level + "If"
	sources := []string{}
	switch raw := value(c.JSON(name)); {
	case raw == nil:
	case raw.kind() == '[':
		sources = c.Strings(name)
	default:
		sources = append(sources, c.String(name, ""))
	}
	for _, source := range sources {
		t, err := parseTest(source)
		if err != nil {
			return nil, fmt.Errorf(".%s: %w", name, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// test compares a value with an operand.
type test struct {
	operator string
	operand  string
	regex    *regexp.Regexp // of =~ and !~
}

// parseTest reads a condition such as "> 100" or "!~ ^ok".
func parseTest(source string) (t test, err error) {
	for _, operator := range []string{"==", "!=", "<=", ">=", "=~", "!~", "<", ">"} {
		if operand, ok := strings.CutPrefix(strings.TrimSpace(source), operator); ok {
			t = test{operator: operator, operand: unquote(strings.TrimSpace(operand))}
			break
		}
	}
	switch t.operator {
	case "":
		return t, fmt.Errorf("%.60q: must be one of <, <=, >, >=, ==, !=, =~, !~ and a value", source)
	case "=~", "!~":
		if t.regex, err = regexp.Compile(t.operand); err != nil {
			return t, fmt.Errorf("%.60q: %w", source, err)
		}
	case "<", "<=", ">", ">=":
		if _, ok := number(t.operand); !ok {
			return t, fmt.Errorf("%.60q: %.40q is not a number", source, t.operand)
		}
	}
	return t, nil
}

func unquote(text string) string {
	if n := len(text); n > 1 && text[0] == text[n-1] && (text[0] == '"' || text[0] == '\'') {
		return text[1 : n-1]
	}
	return text
}

func number(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n == n
}

// fault returns how a value meets the condition, or "".
func (t test) fault(text string) string {
	n, ok := number(text)
	limit, both := number(t.operand)
	both = both && ok
	switch t.operator {
	case "==":
		if text == t.operand || both && n == limit {
			return "which it should not be"
		}
	case "!=":
		if text != t.operand && !(both && n == limit) {
			return "not " + t.operand
		}
	case "=~":
		if t.regex.MatchString(text) {
			return "which matches " + t.operand
		}
	case "!~":
		if !t.regex.MatchString(text) {
			return "which does not match " + t.operand
		}
	default:
		if !ok {
			return "no number"
		}
		return outside(t.operator, n, limit)
	}
	return ""
}

// outside returns whether n is above or below limit, if the operator disallows that.
func outside(operator string, n, limit float64) string {
	switch {
	case operator == "<" && n < limit:
		return fmt.Sprintf("below %v", limit)
	case operator == "<=" && n <= limit:
		return fmt.Sprintf("not above %v", limit)
	case operator == ">" && n > limit:
		return fmt.Sprintf("above %v", limit)
	case operator == ">=" && n >= limit:
		return fmt.Sprintf("not below %v", limit)
	default:
		return ""
	}
}

// verdict is the result of an assertion.
type verdict struct {
	result probe.Result
	text   string
	metric float64
	number bool // whether there is a metric
}

// judge checks the values in a body, and returns the worst verdict.
func (a *assertion) judge(body []byte) verdict {
	texts, fault := a.texts(body)
	if fault != "" {
		return verdict{result: probe.Failure, text: a.name + ": " + fault}
	}
	for _, l := range a.levels {
		for _, text := range texts {
			for _, t := range l.tests {
				if fault := t.fault(text); fault != "" {
					return a.verdict(l.result, texts, fmt.Sprintf("%s is %.200s, %s", a.subject(), text, fault))
				}
			}
		}
	}
	if len(texts) == 1 {
		return a.verdict(probe.Success, texts, fmt.Sprintf("%s is %.200s", a.subject(), texts[0]))
	}
	return a.verdict(probe.Success, texts, fmt.Sprintf("all %d of %s are well", len(texts), a.name))
}

func (a *assertion) verdict(result probe.Result, texts []string, text string) verdict {
	v := verdict{result: result, text: text}
	if len(texts) == 1 {
		v.metric, v.number = number(texts[0])
	}
	return v
}

func (a *assertion) subject() string {
	if a.count {
		return "the count of " + a.name
	}
	return a.name
}

// texts returns the values of the assertion, or an error if there are none.
func (a *assertion) texts(body []byte) (texts []string, fault string) {
	if a.path == nil {
		text, ok := sdk.Lookup(body, a.field)
		if !ok {
			return nil, "the answer has no such field"
		}
		return []string{text}, ""
	}
	root, _ := split(trim(body))
	found, err := a.path.find(root, root)
	switch {
	case err != nil:
		return nil, err.Error()
	case a.count:
		return []string{strconv.Itoa(len(found))}, ""
	case len(found) == 0:
		return nil, "the answer has nothing there"
	}
	for _, v := range found {
		texts = append(texts, v.text())
	}
	return texts, ""
}
