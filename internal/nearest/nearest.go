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

// distance returns the Levenshtein distance of a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitution, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
