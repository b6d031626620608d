package push

// HangDisk makes the storing of reports hang, as a disk may, until release is called.
func (p *Pushes) HangDisk() (release func()) {
	p.acquire()
	return p.release
}
