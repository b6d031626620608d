package importcmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/core/endpoint"
)

// window is a maintenance window.
type window struct {
	entry
	name   string
	all    bool // of all probes
	of     selection
	times  fields // schedule and duration, or from and until, and timeZone
	reason string
}

// maxWindows is the limit of the maintenance windows of prober.yaml.
const maxWindows = 1000

// addWindow adds a window, and chooses its name.
func (p *plan) addWindow(w *window) {
	if len(p.windows) == maxWindows || p.full(w.at) {
		p.noEqual(w.at, "the maintenance window is not imported: there are more than %d", maxWindows)
		return
	}
	if assignsSecret(w.reason) || urlHasSecret(w.reason) || reference().MatchString(w.reason) {
		p.noEqual(w.at, "the reason of the maintenance window is not imported: it may have a secret")
		w.reason = ""
	}
	if err := w.checkTimes(); err != nil {
		p.noEqual(w.at, "the maintenance window is not imported: %v", err)
		return
	}
	w.name = p.uniqueIn(w.name, "maintenance", func(name string) bool { return p.windowNames[name] })
	p.windowNames[w.name] = true
	p.windows = append(p.windows, w)
}

// checkTimes returns an error for texts that are no times, so that no other text of the input is written.
func (w *window) checkTimes() error {
	for _, f := range w.times {
		var err error
		switch text, _ := f.value.(string); f.key {
		case "timeZone":
			_, err = time.LoadLocation(text)
		case "schedule":
			_, err = endpoint.ParseCron(text, time.UTC)
		case "from", "until":
			_, err = time.Parse("2006-01-02T15:04:05", text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.key, err)
		}
	}
	return nil
}

func (p *plan) maintenanceSection() *section {
	s := newSection("maintenance")
	for _, w := range p.windows {
		f := fields{{"name", w.name}}
		if !w.all {
			match := w.of.match()
			w.dropped = w.dropped || len(match) == 0
			f = f.set("match", match)
		}
		s.add(&w.entry, f.and(w.times).with("reason", w.reason))
	}
	return s
}

// daily returns the times of a window that begins at hour:minute on some days of the week, or on all days if
// there are none: numbers from 0, Sunday.
func daily(hour, minute int, weekdays []int, duration time.Duration, zone string) fields {
	days := "*"
	if len(weekdays) > 0 && len(weekdays) < 7 {
		days = joinNumbers(weekdays)
	}
	return cron(fmt.Sprintf("%d %d * * %s", minute, hour, days), duration, zone)
}

func cron(schedule string, duration time.Duration, zone string) fields {
	return fields{{"schedule", schedule}, {"duration", duration}}.with("timeZone", zone)
}

func joinNumbers(all []int) string {
	slices.Sort(all)
	texts := make([]string, 0, len(all))
	for _, n := range slices.Compact(all) {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}

// gatusWindow reads a maintenance window of Gatus. It returns nil for a window that is not enabled or not valid.
func (g *gatus) window(o *object, name string) *window {
	on, start, zone := o.boolean("enabled", true), o.text("start"), o.text("timezone")
	duration := o.interval("duration", 0)
	var days []int
	valid := true
	for _, day := range o.strings("every") {
		n := weekday(day)
		if n < 0 {
			g.p.noEqual(o.at("every"), "the maintenance window is not imported: %.40q is not a day of the week", day)
			valid = false
		}
		days = append(days, n)
	}
	at, err := time.Parse("15:04", start)
	switch {
	case !on:
		g.p.report(ignored, o.at(""), "the maintenance window is not enabled")
		return nil
	case err != nil:
		g.p.noEqual(o.at("start"), "the maintenance window is not imported: %.40q is not a time such as 23:00", start)
		return nil
	case duration <= 0:
		g.p.noEqual(o.at("duration"), "the maintenance window is not imported: it has no duration")
		return nil
	case !valid:
		return nil
	}
	return &window{entry: entry{at: o.at("")}, name: name, times: daily(at.Hour(), at.Minute(), days, duration, zone)}
}

// weekday returns the number of an English day of the week, from 0 for Sunday; -1 if it is none.
func weekday(name string) int {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(day.String(), name) {
			return int(day)
		}
	}
	return -1
}

// windowsOf adds the maintenance windows of an endpoint.
func (g *gatus) windowsOf(o *object, name string, of selection) {
	for _, m := range o.objects("maintenance-windows") {
		w := g.window(m, name)
		m.rest()
		if w == nil {
			continue
		}
		w.of = of
		g.p.addWindow(w)
	}
}

// maintenance imports a maintenance of Uptime Kuma, which has the IDs of its monitors only in some backups.
func (k *kuma) maintenance(o *object) {
	w := &window{entry: entry{at: o.at("")}, name: o.text("title")}
	w.reason, _, _ = strings.Cut(strings.TrimSpace(o.text("title")), "\n")
	on := o.boolean("active", true)
	var unknown bool
	w.of, unknown = k.monitorsOf(o)
	w.times = k.times(o)
	o.ignore("the agent works it out", "id", "status", "timezoneOffset", "timeslotList", "description", "durationMinutes", "user_id", "createdDate")
	o.none("there are no public status pages", "status_pages", "statusPages")
	switch {
	case !on:
		k.p.report(ignored, o.at("active"), "the maintenance is not active")
	case w.times == nil: // reported
	case len(w.of.groups)+len(w.of.pushes) == 0:
		k.p.noEqual(o.at(""), "the maintenance %.40q is not imported: the backup does not say for which monitors", w.reason)
	default:
		if unknown {
			k.p.noEqual(o.at("monitors"), "some monitors of the maintenance %.40q are not imported", w.reason)
		}
		k.p.addWindow(w)
	}
	o.rest()
}

// monitorsOf returns the monitors of a maintenance: a list of IDs, or of objects with an ID.
func (k *kuma) monitorsOf(o *object) (of selection, unknown bool) {
	for _, n := range o.items("monitors") {
		id := n.Value
		if i := indexOf(n, "id"); i >= 0 {
			id = n.Content[i+1].Value
		}
		switch m := k.monitors[id]; {
		case m.group != nil:
			of.groups = append(of.groups, m.group)
		case m.push != nil:
			of.pushes = append(of.pushes, m.push)
		default:
			unknown = true
		}
	}
	return of, unknown
}

// times returns the times of a maintenance; nil, and reported, if they have no equal.
func (k *kuma) times(o *object) fields {
	strategy, zone := o.text("strategy"), o.text("timezone")
	if option := o.text("timezoneOption"); zone == "" {
		zone = option
	}
	if zone == "" || zone == "SAME_AS_SERVER" {
		k.p.differs(o.at("timezone"), "the times of the maintenance are in UTC, not in the time zone of the server")
		zone = ""
	}
	duration := o.units("duration", 0, time.Second)
	from, until := kumaTime(o, "dateRange", 0), kumaTime(o, "dateRange", 1)
	hour, minute, daily := k.timeRange(o, &duration)
	days, interval, expression := o.integers("weekdays"), o.integer("intervalDay", 1), o.text("cron")
	monthDays := o.strings("daysOfMonth")
	wrong := func(format string, args ...any) fields {
		k.p.noEqual(o.at("strategy"), "the maintenance is not imported: "+format, args...)
		return nil
	}
	if strategy != "single" && (from != "" || until != "") {
		k.p.differs(o.at("dateRange"), "a schedule has no first and last day")
	}
	every := func(day, weekdays string) fields {
		if !daily || duration <= 0 {
			return wrong("it has no timeRange")
		}
		return cron(fmt.Sprintf("%d %d %s * %s", minute, hour, day, weekdays), duration, zone)
	}
	switch {
	case strategy == "single" && from != "" && until != "":
		return fields{{"from", from}, {"until", until}}.with("timeZone", zone)
	case strategy == "cron" && duration > 0:
		return cron(expression, duration, zone)
	case strategy == "recurring-interval" && interval != 1:
		return wrong("a schedule cannot have every %d days", interval)
	case strategy == "recurring-interval":
		return every("*", "*")
	case strategy == "recurring-weekday" && len(days) > 0:
		for i := range days {
			days[i] %= 7 // Uptime Kuma counts from 1, Monday, to 7 or 0
		}
		return every("*", joinNumbers(days))
	case strategy == "recurring-day-of-month" && len(monthDays) > 0:
		if slices.ContainsFunc(monthDays, func(day string) bool { return strings.HasPrefix(day, "last") }) {
			return wrong("a schedule has no last day of the month")
		}
		return every(strings.Join(monthDays, ","), "*")
	case strategy == "manual":
		return wrong("begin it with prober maintenance start")
	}
	return wrong("the strategy %.40q has no equal", strategy)
}

// kumaTime returns an item of a list of local times, such as 2026-12-24 18:00:00, in the form of prober.yaml; ""
// if it is not set.
func kumaTime(o *object, name string, i int) string {
	all := o.items(name)
	if i >= len(all) || all[i].Tag == "!!null" {
		return ""
	}
	return strings.TrimSuffix(strings.Replace(all[i].Value, " ", "T", 1), ".000Z")
}

// timeRange returns the begin of a daily window, and sets its duration.
func (k *kuma) timeRange(o *object, duration *time.Duration) (hour, minute int, ok bool) {
	all := o.objects("timeRange")
	if len(all) != 2 {
		return 0, 0, false
	}
	hour, minute = all[0].integer("hours", 0), all[0].integer("minutes", 0)
	last := all[1].integer("hours", 0)*60 + all[1].integer("minutes", 0)
	length := last - hour*60 - minute
	if length <= 0 {
		length += 24 * 60 // it ends on the next day
	}
	*duration = time.Duration(length) * time.Minute
	return hour, minute, true
}

// integers returns the numbers of a list.
func (o *object) integers(name string) (all []int) {
	for _, text := range o.strings(name) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1000 {
			o.p.noEqual(o.at(name), "%.40q must be a number", text)
			continue
		}
		all = append(all, n)
	}
	return all
}
