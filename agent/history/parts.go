package history

// MaxParts is the limit of the parts of a report.
const MaxParts = 100

// maxPartsHeld is the limit of the parts of all series that are in memory together, 32 MiB.
const maxPartsHeld = 2 << 20

// part is how long a series was up and down in a part of a report, in milliseconds.
type part struct{ up, down int64 }

// addToParts adds a time in the state of t, within the report, to the parts of the report.
func (r *reporter) addToParts(t *track, from, to int64) {
	n := int64(r.query.Parts)
	if n == 0 || !t.state.IsUp() && !t.state.IsDown() {
		return
	}
	y := &t.tally
	if y.parts == nil {
		if r.parts += int(n); r.parts > maxPartsHeld {
			return // [Store.Report] returns an error
		}
		y.parts = make([]part, n)
	}
	start := r.query.Since.UnixMilli()
	length := r.until - start
	for from < to {
		i := (from - start) * n / length
		end := min(to, start+(length*(i+1)+n-1)/n)
		if t.state.IsDown() {
			y.parts[i].down += end - from
		} else {
			y.parts[i].up += end - from
		}
		from = end
	}
}

// uptimes returns the uptime in each part; nil where no time is known.
func uptimes(parts []part) []*float64 {
	if parts == nil {
		return nil
	}
	all := make([]*float64, len(parts))
	for i, p := range parts {
		if p.up+p.down > 0 {
			all[i] = new(float64(p.up) / float64(p.up+p.down))
		}
	}
	return all
}
