package measure

import (
	"math"
	"slices"
)

// Summary summarizes the values of several runs.
type Summary struct {
	Min, Median, Max float64
	N                int
}

// Summarize returns the summary of values; the zero Summary for none. The median of an even number
// is the mean of the two in the middle.
func Summarize(values []float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{}
	}
	v := slices.Clone(values)
	slices.Sort(v)
	median := v[n/2]
	if n%2 == 0 && median != v[n/2-1] {
		median = (median + v[n/2-1]) / 2
	}
	return Summary{Min: v[0], Median: median, Max: v[n-1], N: n}
}

// Ratio returns the ratio of the medians; NaN if it is undefined.
func Ratio(of, to Summary) float64 {
	if of.N == 0 || to.N == 0 || to.Median == 0 || math.IsInf(to.Median, 0) {
		return math.NaN()
	}
	return of.Median / to.Median
}
