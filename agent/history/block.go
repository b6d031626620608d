package history

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

const (
	namesPerRecord  = 256
	pointsPerRecord = 16
	seriesPerPass   = 2048 // of a compaction, which has all their points in memory
	eventsPerRecord = 64 << 10
)

// compactAll makes blocks of journals, until ctx ends: of those of agents before, and of each that is
// finished. At first it also reads all blocks, to find damage.
func (s *Store) compactAll(ctx context.Context, finished <-chan fileInfo) {
	retry := time.NewTicker(5 * time.Minute)
	defer retry.Stop()
	s.checkBlocks(ctx, func(f *fileInfo) bool { return s.damage(f) })
	for {
		s.compactOld(ctx)
		s.checkBlocks(ctx, func(f *fileInfo) bool { return s.suspected(f.seq) })
		select {
		case _, ok := <-finished:
			if !ok {
				return
			}
		case <-retry.C: // the disk may have been full
		case <-ctx.Done():
			return
		}
	}
}

// compactOld makes blocks of the journals that are not written any more.
func (s *Store) compactOld(ctx context.Context) {
	files, _ := s.list(0, 1<<62)
	for _, f := range files {
		if ctx.Err() != nil {
			return
		}
		if !f.block && f.last != 0 {
			if err := s.compact(ctx, f); ctx.Err() == nil {
				s.compacted(err)
			}
		}
	}
}

// checkBlocks writes blocks that are damaged anew, with what is left of them.
func (s *Store) checkBlocks(ctx context.Context, damaged func(*fileInfo) bool) {
	files, _ := s.list(0, 1<<62)
	for _, f := range files {
		if ctx.Err() != nil {
			return
		}
		if f.block && damaged(&f) {
			if err := s.compact(ctx, f); ctx.Err() == nil {
				s.compacted(err)
			}
		}
	}
}

// suspected reports whether a report has found damage in a file, for the first time.
func (s *Store) suspected(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.suspects, seq)
	return s.suspects[seq]
}

// damage reports whether a file has a part that cannot be read.
func (s *Store) damage(f *fileInfo) bool {
	in, ok, err := s.openFile(f)
	if err != nil || !ok {
		return false // a report will find out
	}
	defer in.Close()
	scan := record.NewScanner(in, int64(len(record.Magic)), f.size)
	last := record.Type(0)
	for raw, ok := scan.Next(); ok; raw, ok = scan.Next() {
		last = raw.Type
	}
	return scan.Damaged > 0 || last != record.End
}

// compaction is what is made of one file.
type compaction struct {
	s      *Store
	in     file
	from   fileInfo
	ids    map[uint32]uint32 // of the file, to those of the block
	series []record.Series   // sorted, with the IDs of the block from 1 on
	last   int64             // of the events

	out     *bufio.Writer
	at      int64 // where out is
	encode  record.Writer
	buffer  []byte
	payload []byte
	where   record.Directory
}

// compact writes the block of a file in place of it.
func (s *Store) compact(ctx context.Context, f fileInfo) error {
	in, ok, err := s.openFile(&f)
	if err != nil || !ok {
		return err
	}
	defer in.Close()
	c := &compaction{s: s, in: in, from: f, ids: make(map[uint32]uint32)}
	damaged, err := c.survey()
	if err != nil {
		return err
	}
	part := s.path(fileNameOf(f.seq, partSuffix))
	_ = s.disk.Remove(part) // an attempt before failed
	out, err := s.disk.Create(part)
	if err != nil {
		return err
	}
	err = c.write(ctx, out)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		_ = s.disk.Remove(part)
		return err
	}
	block := fileInfo{seq: f.seq, block: true, size: c.at, first: f.first, last: max(c.last, f.first)}
	if damaged && f.block {
		s.setAside(&f, record.ErrDamaged)
	} else if damaged {
		s.damaged(f.name(), "%v", record.ErrDamaged)
	}
	if err := s.disk.Rename(part, s.path(block.name())); err != nil {
		return err
	}
	if err := s.disk.SyncDir(s.dir); err != nil {
		return err
	}
	s.put(block)
	if !f.block {
		return s.disk.Remove(s.path(f.name()))
	}
	return nil
}

func fileNameOf(seq uint64, suffix string) string {
	f := fileInfo{seq: seq, block: true}
	return f.name() + suffix
}

// survey reads the names of the file.
func (c *compaction) survey() (damaged bool, err error) {
	handlers := make(map[record.Key]string)
	of := make(map[uint32]record.Key)
	scan := record.NewScanner(c.in, int64(len(record.Magic)), c.from.size)
	for raw, ok := scan.Next(); ok; raw, ok = scan.Next() {
		if raw.Type != record.Names {
			continue
		}
		payload, err := scan.Payload(raw)
		if err != nil {
			continue
		}
		_ = record.DecodeNames(payload, func(s record.Series) { // an error loses the rest of them
			of[s.ID] = s.Key
			handlers[s.Key] = s.Handler
		})
	}
	for key, handler := range handlers {
		c.series = append(c.series, record.Series{Key: key, Handler: handler})
	}
	slices.SortFunc(c.series, func(a, b record.Series) int { return a.Compare(&b.Key) })
	ids := make(map[record.Key]uint32, len(c.series))
	for i := range c.series {
		c.series[i].ID = uint32(i + 1)
		ids[c.series[i].Key] = uint32(i + 1)
	}
	for old, key := range of {
		c.ids[old] = ids[key]
	}
	c.last = c.from.last
	return scan.Damaged > 0 && (c.from.block || !scan.Torn()), scan.Err()
}

// write writes the block.
func (c *compaction) write(ctx context.Context, f file) error {
	c.out = bufio.NewWriterSize(&fileWriter{f: f}, 128<<10) // keeps the first error
	n, _ := c.out.WriteString(record.Magic)
	c.at = int64(n)
	c.add(record.Head, record.AppendHead(nil, c.from.first, max(c.last, c.from.first)))
	for part := range slices.Chunk(c.series, namesPerRecord) {
		c.where.Names = append(c.where.Names, record.NamesAt{First: part[0].Key, Offset: c.at})
		c.payload = record.AppendNames(c.payload[:0], part)
		c.add(record.Names, c.payload)
	}
	c.copyEvents()
	for from := 0; from < len(c.series); from += seriesPerPass {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.copyPoints(from, min(from+seriesPerPass, len(c.series))); err != nil {
			return err
		}
	}
	index := c.at
	c.payload = record.AppendIndex(c.payload[:0], &c.where)
	c.add(record.Index, c.payload)
	c.add(record.End, record.AppendEnd(nil, index))
	return c.out.Flush()
}

// add writes a record.
func (c *compaction) add(t record.Type, payload []byte) {
	c.buffer = c.encode.Append(c.buffer[:0], t, payload)
	_, _ = c.out.Write(c.buffer)
	c.at += int64(len(c.buffer))
}

// copyEvents writes the events of the file in larger records.
func (c *compaction) copyEvents() {
	var events record.EventWriter
	scan := record.NewScanner(c.in, int64(len(record.Magic)), c.from.size)
	scan.Skip = func(t record.Type) bool { return t != record.Events }
	for raw, ok := scan.Next(); ok; raw, ok = scan.Next() {
		payload, err := scan.Payload(raw)
		if err != nil {
			continue
		}
		_ = record.DecodeEvents(payload, func(e *record.Event) {
			if e.Op == record.Change || e.Op == record.Held {
				id, ok := c.ids[e.ID]
				if !ok { // its name is lost
					return
				}
				e.ID = id
			}
			c.last = max(c.last, e.Time)
			events.Add(e)
			if events.Len() > eventsPerRecord {
				c.add(record.Events, events.Take())
			}
		})
	}
	if events.Len() > 0 {
		c.add(record.Events, events.Take())
	}
}

// copyPoints writes the points of the series from index from up to index to.
func (c *compaction) copyPoints(from, to int) error {
	all := make([][]record.Point, to-from)
	err := eachPoint(c.in, c.from.size, func(id uint32, p record.Point) {
		if i := int(c.ids[id]) - 1 - from; i >= 0 && i < len(all) {
			all[i] = append(all[i], p)
		}
	})
	if err != nil {
		return err
	}
	for i := range all {
		all[i] = inOrder(all[i])
	}
	for i := 0; i < len(all); i += pointsPerRecord {
		first := uint32(from + i + 1)
		c.where.Points = append(c.where.Points, record.PointsAt{First: first, Offset: c.at})
		c.payload = record.AppendPoints(c.payload[:0], first, all[i:min(i+pointsPerRecord, len(all))])
		c.add(record.Points, c.payload)
	}
	return nil
}

// eachPoint calls each for all points of a file.
func eachPoint(in io.ReaderAt, size int64, each func(id uint32, p record.Point)) error {
	scan := record.NewScanner(in, int64(len(record.Magic)), size)
	scan.Skip = func(t record.Type) bool { return t != record.Minute && t != record.Points }
	var samples []record.SampleOf
	for raw, ok := scan.Next(); ok; raw, ok = scan.Next() {
		payload, err := scan.Payload(raw)
		if err != nil {
			continue
		}
		if raw.Type == record.Points {
			_ = record.DecodePoints(payload, func(id uint32, points []record.Point) {
				for _, p := range points {
					each(id, p)
				}
			})
			continue
		}
		var minute int32
		if minute, samples, err = record.DecodeMinute(payload, samples[:0]); err == nil {
			for i := range samples {
				each(samples[i].ID, record.Point{Minute: minute, Sample: samples[i].Sample})
			}
		}
	}
	return scan.Err()
}

// inOrder sorts points, and makes one of those of one minute: that of an agent that stopped, and of the
// next one.
func inOrder(points []record.Point) []record.Point {
	slices.SortStableFunc(points, func(a, b record.Point) int { return int(a.Minute) - int(b.Minute) })
	out := points[:0]
	for _, p := range points {
		if len(out) > 0 && out[len(out)-1].Minute == p.Minute {
			out[len(out)-1].Add(&p.Sample)
			continue
		}
		out = append(out, p)
	}
	return out
}

// fileWriter writes to a file from its begin on.
type fileWriter struct {
	f  file
	at int64
}

// Write implements [io.Writer].
func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.f.WriteAt(p, w.at)
	w.at += int64(n)
	return n, err
}
