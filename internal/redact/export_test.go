package redact

// Steps returns the number of steps to replace the secrets of text, and the limit.
func (r *Replacer) Steps(text string) (steps, most int) {
	s := newScan(r, text)
	most = s.left
	s.replace()
	return most - s.left, most
}
