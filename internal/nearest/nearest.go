// Package nearest finds the known name that is closest to a misspelled one.
package nearest

// Name returns the known name with the smallest edit distance to name: at most two, and less than the length of
// the longer name. It returns "" if there is none.
func Name(name string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		if d := distance(name, k); d < bestDistance && d < max(len(name), len(k)) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance returns the number of edits from a to b, in bytes: insertions, deletions, substitutions, and swaps of
// neighbours.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			substitution := last[j]
			if a[i] != b[j] {
				substitution++
			}
			row[j+1] = min(substitution, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
