package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/daeace23/prober/bench/internal/scenario"
)

// Sizes of a chart, in pixels.
const (
	width, height = 720, 360
	left, right   = 70, 170 // the legend is at the right
	top, bottom   = 40, 45
)

var colours = []string{"#9aa5b1", "#2563eb", "#111827", "#d97706", "#059669"}

// point is one value of a series.
type point struct{ x, y float64 }

// series is the values of one subject.
type series struct {
	name   string
	points []point
}

// chart returns a chart of a section; nil if there are no values. It does not draw infinite medians.
func (s *section) chart(plot scenario.Plot) []byte {
	var all []series
	var loads []string
	for _, r := range s.rows() {
		y := s.summary(plot.Figure, r.subject, exactly(r.params))
		if y.N == 0 || math.IsInf(y.Median, 0) {
			continue
		}
		x, err := strconv.ParseFloat(r.param(plot.X), 64)
		if plot.X == "" {
			name := r.load()
			if !slices.Contains(loads, name) {
				loads = append(loads, name)
			}
			x = float64(slices.Index(loads, name))
		} else if err != nil {
			continue
		}
		i := slices.IndexFunc(all, func(o series) bool { return o.name == r.subject })
		if i < 0 {
			i = len(all)
			all = append(all, series{name: r.subject})
		}
		all[i].points = append(all[i].points, point{x, y.Median})
	}
	switch {
	case len(all) == 0:
		return nil
	case plot.X == "":
		return bars(plot.Title, loads, all)
	default:
		return lines(plot.Title, plot.X, all)
	}
}

// canvas is a buffer for an SVG document.
type canvas struct{ bytes.Buffer }

func newCanvas(title string) *canvas {
	c := new(canvas)
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(c, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	c.text(left, 22, "start", title)
	return c
}

func (c *canvas) text(x, y float64, anchor, text string) {
	fmt.Fprintf(c, `<text x="%.0f" y="%.0f" text-anchor="%s" fill="#111827">`, x, y, anchor)
	_ = xml.EscapeText(c, []byte(text)) // a buffer returns no error
	c.WriteString("</text>\n")
}

func (c *canvas) legend(all []series) {
	for i, s := range all {
		y := float64(top + 18*i)
		fmt.Fprintf(c, `<rect x="%d" y="%.0f" width="12" height="12" fill="%s"/>`+"\n", width-right+14, y, colours[i%len(colours)])
		c.text(width-right+32, y+10, "start", s.name)
	}
}

func (c *canvas) end() []byte {
	c.WriteString("</svg>\n")
	return c.Bytes()
}

// level draws a horizontal line with its value.
func (c *canvas) level(y, value float64) {
	fmt.Fprintf(c, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e5e7eb"/>`+"\n", left, y, width-right, y)
	c.text(left-8, y+4, "end", number(value))
}

// bars draws a group of bars for each load.
func bars(title string, loads []string, all []series) []byte {
	c, most := newCanvas(title), 0.0
	for _, s := range all {
		for _, p := range s.points {
			most = max(most, p.y)
		}
	}
	most = nice(most)
	scale := (height - top - bottom) / most
	for i := range 5 {
		v := most * float64(i) / 4
		c.level(height-bottom-v*scale, v)
	}
	group := float64(width-left-right) / float64(len(loads))
	bar := group * 0.8 / float64(len(all))
	for i, name := range loads {
		c.text(left+group*(float64(i)+0.5), height-bottom+18, "middle", name)
	}
	for i, s := range all {
		for _, p := range s.points {
			x, h := left+group*(p.x+0.1)+bar*float64(i), p.y*scale
			fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, height-bottom-h, bar*0.9, h, colours[i%len(colours)])
			c.text(x+bar*0.45, height-bottom-h-4, "middle", number(p.y))
		}
	}
	c.legend(all)
	return c.end()
}

// nice returns the next number of the form 1, 2 or 4 times a power of ten.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 4, 10} {
		if v <= f*power {
			return f * power
		}
	}
	return 10 * power
}

// lines draws a line for each series, with logarithmic axes.
func lines(title, xName string, all []series) []byte {
	c := newCanvas(title + " (both axes are logarithmic)")
	least, most := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, s := range all {
		for _, p := range s.points {
			p = point{math.Log10(p.x), math.Log10(max(p.y, 0.01))}
			least = point{min(least.x, p.x), min(least.y, math.Floor(p.y))}
			most = point{max(most.x, p.x), max(most.y, math.Ceil(p.y))}
		}
	}
	span := point{max(most.x-least.x, 1e-9), max(most.y-least.y, 1e-9)}
	at := func(p point) (x, y float64) {
		x = left + (math.Log10(p.x)-least.x)/span.x*(width-left-right)
		y = height - bottom - (math.Log10(max(p.y, 0.01))-least.y)/span.y*(height-top-bottom)
		return x, y
	}
	for e := least.y; e <= most.y; e++ {
		v := math.Pow(10, e)
		_, y := at(point{1, v})
		c.level(y, v)
	}
	for e := math.Ceil(least.x); e <= most.x; e++ {
		x, _ := at(point{math.Pow(10, e), 1})
		c.text(x, height-bottom+18, "middle", number(math.Pow(10, e)))
	}
	c.text(float64(left+width-right)/2, height-8, "middle", xName)
	for i, s := range all {
		colour := colours[i%len(colours)]
		fmt.Fprintf(c, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colour)
		for _, p := range s.points {
			x, y := at(p)
			fmt.Fprintf(c, "%.1f,%.1f ", x, y)
		}
		c.WriteString(`"/>` + "\n")
		for _, p := range s.points {
			x, y := at(p)
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x, y, colour)
		}
	}
	c.legend(all)
	return c.end()
}
