package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/statefile"
)

const (
	journalName = "pushes.jsonl"
	// maxJournal is the largest size of a journal that is read, in bytes.
	maxJournal = 256 << 20
	// growth is how many bytes are added to a journal before it is rewritten with the last record of each
	// check.
	growth = 8 << 20
)

// record is a line of the journal: a check after a report.
type record struct {
	Name    string             `json:"name"`
	State   endpoint.PushState `json:"state"`
	Message string             `json:"message,omitempty"`
}

// journal is the file of the last record of each check. It stores each record before add returns: the end of
// the process loses none. It is not synced at each record, so that a loss of power may lose the last seconds.
// The zero value of path stores nothing. The caller serializes calls.
// See RATIONALE.md, "Why is a report in a journal, and not in the history?"
type journal struct {
	path string
	file *os.File // nil until the first record, and after an error
	size int64    // of file
	next int64    // size at which the file is rewritten
}

// openJournal reads the journal in dir, and returns the last record of each check. It logs a file that cannot
// be read, and starts without records.
func openJournal(dir string, log *slog.Logger) (*journal, map[string]*record) {
	j, last := new(journal), make(map[string]*record)
	if dir == "" {
		return j, last
	}
	j.path = filepath.Join(dir, journalName)
	data, err := statefile.Read(j.path, maxJournal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return j, last
	case err != nil:
		statefile.Keep(log, "the reports to pushes cannot be read: their checks begin again", j.path, err)
		return j, last
	}
	const lost = "some reports to pushes cannot be read"
	switch broken, cut := readRecords(data, last); {
	case broken > 0: // the next report rewrites the file, without them
		statefile.KeepCopy(log, lost, j.path, fmt.Errorf("%d lines are not valid", broken), data)
	case cut:
		log.Warn(lost, "file", j.path, "lines", 1)
	}
	return j, last
}

// readRecords reads the lines of data into last. broken is the number of whole lines that are no records. cut reports
// whether the last line is a part of one: an agent that was killed may leave it.
func readRecords(data []byte, last map[string]*record) (broken int, cut bool) {
	for line := range bytes.Lines(data) {
		r := new(record)
		switch err := json.Unmarshal(line, r); {
		case err == nil && r.Name != "":
			last[r.Name] = r
		case bytes.HasSuffix(line, []byte("\n")):
			broken++
		default:
			cut = true
		}
	}
	return broken, cut
}

// add stores r. all returns the last record of each check.
func (j *journal) add(r *record, all func() []*record) error {
	if j.path == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if j.file == nil || j.size > j.next {
		return j.rewrite(all()) // writes r too
	}
	n, err := j.file.Write(append(line, '\n'))
	j.size += int64(n)
	if err != nil { // a part of the line may be in the file
		j.close()
		return fmt.Errorf("the report cannot be stored: %w", err)
	}
	return nil
}

// rewrite replaces the file with one that has only these records, and opens it.
func (j *journal) rewrite(all []*record) error {
	j.close()
	err := regular.Replace(j.path, 0o600, func(f *os.File) error {
		encoder := json.NewEncoder(f)
		for _, r := range all {
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		return f.Sync()
	})
	if err == nil {
		j.file, err = ownership.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err == nil {
		j.size, err = j.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		j.close()
		return fmt.Errorf("the report cannot be stored: %w", err)
	}
	j.next = j.size + growth
	return nil
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close() // each record was written already
		j.file = nil
	}
}
