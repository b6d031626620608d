package agent

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/reply"
)

// query has the parameters of a list, as in the Kubernetes API: filters, limit and continue. limit is 0 for
// no limit. after is the key of the last item of the previous page; nil for the first page.
type query struct {
	list    string
	filters map[string]string
	limit   int
	after   *sortKey
}

// sortKey is the key by which the items of a list are sorted. It identifies an item.
type sortKey [5]string

func (k *sortKey) compare(o *sortKey) int { return slices.Compare(k[:], o[:]) }

// parseQuery reads the query of a list. filters are the names of its other parameters.
func parseQuery(list string, values url.Values, filters ...string) (query, error) {
	q := query{list: list, filters: make(map[string]string)}
	known := append(filters, "continue", "limit")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(known, name):
			slices.Sort(known)
			return query{}, fmt.Errorf("unknown parameter %q; known: %s", name, strings.Join(known, ", "))
		case len(values[name]) > 1:
			return query{}, fmt.Errorf("parameter %q is set %d times", name, len(values[name]))
		}
		q.filters[name] = values[name][0]
	}
	if text := q.filters["limit"]; text != "" {
		limit, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return query{}, fmt.Errorf("limit %q must be an integer, at least 0", text)
		}
		q.limit = int(limit)
	}
	if text := q.filters["continue"]; text != "" {
		var token []string
		text, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(text, &token) != nil || len(token) != 1+len(sortKey{}) || token[0] != list {
			return query{}, fmt.Errorf("continue must be a metadata.continue of this list")
		}
		q.after = (*sortKey)(token[1:])
	}
	return q, nil
}

// matches reports whether value passes the filter called name. An unset filter matches everything.
func (q *query) matches(name, value string) bool {
	return q.filters[name] == "" || q.filters[name] == value
}

// oneOf returns an error if the filter called name has a value that is not in words.
func (q *query) oneOf(name string, words []string) error {
	if word := q.filters[name]; word != "" && !slices.Contains(words, word) {
		return fmt.Errorf("unknown %s %q; known: %s", name, word, strings.Join(slices.Sorted(slices.Values(words)), ", "))
	}
	return nil
}

// continuation returns the value of continue for the page after key.
func (q *query) continuation(key *sortKey) string {
	token, err := json.Marshal(append([]string{q.list}, key[:]...))
	if err != nil {
		return "" // strings can always be encoded
	}
	return base64.RawURLEncoding.EncodeToString(token)
}

// pager collects the page of a list that a query selects. Items are added in any order. It keeps at most two
// pages of items in memory. An item that exists during all requests is on exactly one page.
type pager[T any] struct {
	query *query
	items []pageItem[T]
	count int  // number of items added
	full  bool // items has a full page: items after its last one are not on the page
}

type pageItem[T any] struct {
	key   sortKey
	value T
}

// passed reports whether the item with this key was on an earlier page.
func (p *pager[T]) passed(key *sortKey) bool {
	return p.query.after != nil && key.compare(p.query.after) <= 0
}

// add adds an item. The caller checks that it has not passed.
func (p *pager[T]) add(key sortKey, value T) {
	p.count++
	limit := p.query.limit
	if p.full && key.compare(&p.items[limit-1].key) > 0 {
		return
	}
	p.items = append(p.items, pageItem[T]{key, value})
	if limit > 0 && len(p.items) == 2*limit {
		p.trim()
	}
}

// trim sorts the items, and drops the items after the page.
func (p *pager[T]) trim() {
	slices.SortFunc(p.items, func(a, b pageItem[T]) int { return a.key.compare(&b.key) })
	if limit := p.query.limit; limit > 0 && len(p.items) > limit {
		clear(p.items[limit:])
		p.items, p.full = p.items[:limit], true
	}
}

// page returns the sorted items of the page, and the metadata of the list.
func (p *pager[T]) page() ([]pageItem[T], api.ListMeta) {
	p.trim()
	rest := p.count - len(p.items)
	if rest == 0 {
		return p.items, api.ListMeta{}
	}
	return p.items, api.ListMeta{
		Continue: p.query.continuation(&p.items[len(p.items)-1].key), RemainingItemCount: new(int64(rest)),
	}
}

const (
	// maxLists is the limit of lists being written: each holds its items in memory until the client has
	// received them.
	maxLists = 4
	// maxReports is the limit of reports being made: each reads the whole history.
	maxReports = 2
	// listPatience is how long a client may take to read a part of a list.
	listPatience = 10 * time.Second
	// listWait is how long a request waits for a slot. It exceeds listPatience, so that stalled clients delay
	// a request but do not fail it.
	listWait = 15 * time.Second
	// partBytes is the approximate size of a write.
	partBytes = 32 << 10
)

// partWriter writes a response in parts. The client must read each within [listPatience].
type partWriter struct{ http.ResponseWriter }

// Write writes a part. It yields the processor afterwards, so that ticks that are due run first.
func (p partWriter) Write(part []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(listPatience)) // on an error the server's limit stays
	n, err := p.ResponseWriter.Write(part)
	runtime.Gosched()
	return n, err
}

// writeList writes a list as JSON, item by item, so that the response is never in memory as a whole. head has
// the fields before the items. convert returns the JSON value of an item, and false to omit it.
func writeList[T any](w http.ResponseWriter, head any, items []pageItem[T], convert func(T) (any, bool)) {
	text, err := json.Marshal(head)
	if err != nil {
		reply.Fail(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := bufio.NewWriterSize(partWriter{w}, partBytes) // the first error sticks: the client has left
	defer out.Flush()
	text = text[:len(text)-1]
	out.Write(text)
	if len(text) > 1 {
		out.WriteByte(',')
	}
	out.WriteString(`"items":[`)
	written := false
	for i := range items {
		item, ok := convert(items[i].value)
		if !ok {
			continue
		}
		text, err := json.Marshal(item)
		if err != nil {
			continue // it has a number that JSON cannot represent
		}
		if written {
			out.WriteByte(',')
		}
		written = true
		if _, err := out.Write(text); err != nil {
			return
		}
	}
	out.WriteString("]}\n")
}
