package testfile

import "strings"

// diff returns the unified diff of two short lists of lines, with all equal lines.
func diff(want, got []string) string {
	// longest[i][j] is the length of the longest common subsequence of want[i:] and got[j:].
	longest := make([][]int, len(want)+1)
	for i := range longest {
		longest[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if longest[i][j] = max(longest[i+1][j], longest[i][j+1]); want[i] == got[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	var b strings.Builder
	b.WriteString("--- want\n+++ got\n")
	write := func(sign, text string) {
		b.WriteString(sign + strings.ReplaceAll(text, "\n", "\n"+sign) + "\n")
	}
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			write(" ", want[i])
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && longest[i+1][j] >= longest[i][j+1]:
			write("-", want[i])
			i++
		default:
			write("+", got[j])
			j++
		}
	}
	return b.String()
}
