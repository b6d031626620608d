package wasm_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

const (
	moduleHeader = "\x00asm\x01\x00\x00\x00"
	fourBillion  = "\xff\xff\xff\xff\x0f"
)

// section returns a section of a module. body must have less than 128 bytes.
func section(id byte, body string) string { return string(append([]byte{id}, sized([]byte(body))...)) }

// TestModuleCountsAreBounded checks that a few bytes cannot make wazero allocate all memory.
func TestModuleCountsAreBounded(t *testing.T) {
	function := section(1, "\x01\x60\x00\x01\x7f") + section(3, "\x01\x00") + section(5, "\x01\x00\x01") +
		section(7, "\x02\x06memory\x02\x00\x05probe\x00\x00")
	code := func(locals string) string { return section(10, "\x01"+string(sized([]byte(locals+"\x41\x00\x0b")))) }
	name := func(parts string) string { return section(0, "\x04name"+parts) }
	for what, c := range map[string]struct{ module, want string }{
		"types":               {section(1, fourBillion), "malformed"},
		"parameters":          {section(1, "\x01\x60"+fourBillion), "malformed"},
		"functions":           {section(3, fourBillion), "malformed"},
		"elements":            {section(9, fourBillion), "malformed"},
		"items of an element": {section(9, "\x01\x01\x00"+fourBillion), "malformed"},
		"expressions":         {section(9, "\x01\x05\x70"+fourBillion), "malformed"},
		"bodies":              {section(10, fourBillion), "malformed"},
		"locals":              {function + code("\x01\x80\x80\x80\x80\x01\x7f"), "more than 50000 locals"},
		"locals in parts":     {function + code("\x02\x80\xfe\x01\x7f\x80\xc0\x02\x7e"), "more than 50000 locals"},
		"groups of locals":    {function + code(fourBillion), "malformed"},
		"segments":            {section(11, fourBillion), "malformed"},
		"bytes of a segment":  {section(11, "\x01\x01"+fourBillion), "malformed"},
		"names":               {name("\x01\x05" + fourBillion), "malformed"},
		"names past the end":  {name("\x01\x00" + fourBillion), "malformed"},
		"names after names":   {name("\x01\x06\x00" + fourBillion), "malformed"},
		"names of locals":     {name("\x02\x07\x01\x00" + fourBillion), "malformed"},
		"a long name":         {name("\x00\x05" + fourBillion), "malformed"},
		"many parameters":     {"\x01" + string(sized([]byte("\xc9\x01"+strings.Repeat("\x60\xe8\x07"+strings.Repeat("\x7f", 1000)+"\x00", 201)))), "more than 200000 parameters"},
		"many types":          {"\x01" + string(sized([]byte("\xa1\x9c\x01"+strings.Repeat("\x60\x00\x00", 20_001)))), "more than 20000 types"},
		"many functions":      {"\x03" + string(sized([]byte("\xa1\x8d\x06"+strings.Repeat("\x00", 100_001)))), "more than 100000 functions"},
		"many exports":        {"\x07" + string(sized([]byte("\xa1\x9c\x01"+strings.Repeat("\x00\x00\x00", 20_001)))), "more than 20000 exports"},
		"many tables":         {section(4, "\x65"+strings.Repeat("\x70", 101)), "more than 100 tables"},
		"sections":            {strings.Repeat(section(0, "\x00"), 10_001), "more than 10000 sections"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := host.Load(t.Context(), plugin.Found{Module: []byte(moduleHeader + c.module), Manifest: plugin.Minimal("bomb")})
			if err == nil || probe.ReasonOf(err) != probe.ReasonInstantiate || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	p, err := host.Load(t.Context(), plugin.Found{Module: []byte(moduleHeader + function + code("\x01\xd0\x86\x03\x7f")), Manifest: plugin.Minimal("many")})
	if err != nil {
		t.Fatalf("50,000 locals: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestExpensiveFunctionsAreRefused has small functions whose compilation would take seconds and
// gigabytes.
func TestExpensiveFunctionsAreRefused(t *testing.T) {
	thousand := "\xe8\x07" + strings.Repeat("\x7f", 1000)
	const loop, block = "\x03\x40\x0b", "\x02\x40\x0b"
	for what, c := range map[string]struct{ locals, body, want string }{
		"loops":             {"\x00", strings.Repeat(loop, 2001), "more than 2000 loops"},
		"blocks":            {"\x00", strings.Repeat(block, 20_001), "more than 20000 branches"},
		"a table":           {"\x00", "\x41\x00\x0e\xa1\x9c\x01" + strings.Repeat("\x00", 20_002) + "\x0b\x02\x40", "more than 20000 branches"},
		"blocks and locals": {"\x01\xd0\x86\x03\x7f", strings.Repeat(block, 100), "100 branches and 50000 locals in one function, whose product must not be above 4194304: compiling it would take too long"},
		"memory.fill":       {"\x00", strings.Repeat("\x41\x00\x41\x00\x41\x00\xfc\x0b\x00", 2001), "more than 2000 loops"},
		"calls":             {"\x00", "\x00" + strings.Repeat("\x10\x01", 201), "more than 200000 values"},
		"indirect calls":    {"\x00", "\x00" + strings.Repeat("\x11\x01\x00", 201), "more than 200000 values"},
		"typed blocks":      {"\x00", "\x00" + strings.Repeat("\x02\x01\x00\x0b", 201), "more than 200000 values"},
		"typed branches":    {"\x00", "\x02\x01\x00" + strings.Repeat("\x0d\x00", 201) + "\x0b", "more than 200000 values"},
		"typed loops":       {"\x00", "\x03\x02\x00" + strings.Repeat("\x0d\x00", 201) + "\x0b", "more than 200000 values"},
		"a typed table":     {"\x00", "\x02\x01\x00\x0e\xc8\x01" + strings.Repeat("\x00", 201) + "\x0b", "more than 200000 values"},
		"after table.set":   {"\x00", "\x41\x00\xd0\x70\x26\x00" + strings.Repeat(loop, 2001), "more than 2000 loops"},
		"after table.grow":  {"\x00", "\xd0\x70\x41\x00\xfc\x0f\x00\x1a" + strings.Repeat(loop, 2001), "more than 2000 loops"},
	} {
		body := sized([]byte(c.locals + c.body + "\x41\x00\x0b"))
		types := "\x03\x60\x00\x01\x7f\x60\x00" + thousand + "\x60" + thousand + "\x00"
		body = append(body, sized([]byte("\x00\x00\x0b"))...)
		module := moduleHeader + "\x01" + string(sized([]byte(types))) + section(3, "\x02\x00\x01") + section(4, "\x01\x70\x00\x01") +
			section(5, "\x01\x00\x01") + section(7, "\x02\x06memory\x02\x00\x05probe\x00\x00") + "\x0a" + string(sized(append([]byte{2}, body...)))
		_, err := host.Load(t.Context(), plugin.Found{Module: []byte(module), Manifest: plugin.Minimal("bomb")})
		if err == nil || probe.ReasonOf(err) != probe.ReasonInstantiate || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
	}
}
