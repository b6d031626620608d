package config

import (
	"fmt"
	"time"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/internal/window"
	"github.com/daeace23/prober/internal/yamlpos"
)

// maxWindowDuration limits a span of a schedule. Longer ones have from and until.
const maxWindowDuration = 31 * 24 * time.Hour

// windowFields has the fields of a mapping that describe a window: schedule and duration, or from and until,
// and timeZone.
type windowFields struct {
	cron, zone, from, until string
	duration                time.Duration
}

// windowFields adds the readers of the fields of a window to the ones of a mapping. [decoder.window] then returns
// the window.
func (d *decoder) windowFields(f *windowFields, fields yamlpos.Fields) yamlpos.Fields {
	f.zone = "UTC"
	fields["schedule"], fields["duration"] = d.NonEmpty(&f.cron), d.interval(&f.duration, time.Minute, maxWindowDuration)
	fields["from"], fields["until"] = d.NonEmpty(&f.from), d.NonEmpty(&f.until)
	fields["timeZone"] = d.NonEmpty(&f.zone)
	return fields
}

// window returns the window of a mapping, and checks the fields that belong to it. It returns the zero window
// after an error.
func (d *decoder) window(n *yamlpos.Node, path string, f *windowFields) (w window.Window) {
	has := func(field string) bool { return yamlpos.Field(n, field) != nil }
	recurring, once := has("schedule") || has("duration"), has("from") || has("until")
	switch {
	case n.Kind != yamlpos.Mapping: // reported
		return w
	case recurring == once, recurring && !(has("schedule") && has("duration")), once && !(has("from") && has("until")):
		d.Errorf(n, path, "must have schedule and duration, or from and until")
		return w
	}
	loc, ok := d.timeZone(n, path, f.zone)
	if !ok {
		return w
	}
	var err error
	if recurring {
		schedule := d.cron(n, path, f.cron, loc)
		if schedule == nil || f.duration == 0 {
			return w
		}
		if w, err = window.Recurring(schedule, f.duration); err != nil {
			d.Error(yamlpos.Field(n, "duration"), path+".duration", err)
		}
		return w
	}
	from, okFrom := d.time(n, path, "from", f.from, loc)
	until, okUntil := d.time(n, path, "until", f.until, loc)
	if okFrom && okUntil {
		if w, err = window.Once(from, until); err != nil {
			d.Error(yamlpos.Field(n, "until"), path+".until", err)
		}
	}
	return w
}

// timeZone returns the time zone of the field timeZone.
func (d *decoder) timeZone(n *yamlpos.Node, path, zone string) (loc *time.Location, ok bool) {
	if zone == "" {
		return nil, false // NonEmpty has reported it
	}
	loc, err := parseTimeZone(zone)
	if err != nil {
		d.Error(yamlpos.Field(n, "timeZone"), path+".timeZone", err)
		return nil, false
	}
	return loc, true
}

// cron returns the schedule of the field schedule; nil after an error.
func (d *decoder) cron(n *yamlpos.Node, path, cron string, loc *time.Location) *endpoint.Schedule {
	if cron == "" {
		return nil // NonEmpty has reported it
	}
	schedule, err := endpoint.ParseCron(cron, loc)
	if err != nil {
		d.Error(yamlpos.Field(n, "schedule"), path+".schedule", err)
		return nil
	}
	return schedule
}

// time parses a time in loc, or with an offset of its own.
func (d *decoder) time(n *yamlpos.Node, path, field, text string, loc *time.Location) (t time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, text, loc); err == nil {
			return t, true
		}
	}
	if text != "" {
		d.Error(yamlpos.Field(n, field), path+"."+field, fmt.Errorf("%.40q is not a time such as 2026-12-24T18:00 or 2026-12-24T16:00:00Z", text))
	}
	return t, false
}
