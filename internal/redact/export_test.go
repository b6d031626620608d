package redact

// Steps returns how many steps it takes to replace the secrets of text, and how many it may
// take at most.
func (r *Replacer) Steps(text string) (steps, most int) {
	s := newScan(r, text)
	most = s.left
	s.replace()
	return most - s.left, most
}
