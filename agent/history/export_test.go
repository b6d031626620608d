package history

// Disk and File are those of a test.
type (
	Disk = disk
	File = file
)

// OSDisk is the disk of the system.
type OSDisk = osDisk

// WithDisk returns cfg with another disk.
func WithDisk(cfg Config, d Disk) Config {
	cfg.disk = d
	return cfg
}

// SetMaxDetails sets how many bytes of incidents a report has in memory.
func (s *Store) SetMaxDetails(n int) { s.maxDetails = n }

// The limits of what waits for the writer.
const (
	MaxQueue   = maxQueue
	MaxPending = maxPending
	MaxTexts   = maxTexts
)

// HasDisk reports whether cfg has another disk than the system's.
func HasDisk(cfg Config) bool { return cfg.disk != nil }
