package agent

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/agent/api"
)

// query has the parameters of a list, as the Kubernetes API has them: filters, limit and continue.
// limit is 0 for no limit. after is the key of the last item of the page before; nil for none.
type query struct {
	list    string
	filters map[string]string
	limit   int
	after   []string
}

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
		text, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(text, &q.after) != nil || len(q.after) < 2 || q.after[0] != list {
			return query{}, fmt.Errorf("continue must be a metadata.continue of this list")
		}
		q.after = q.after[1:]
	}
	return q, nil
}

// matches reports whether value passes the filter called name. An unset filter matches everything.
func (q *query) matches(name, value string) bool {
	return q.filters[name] == "" || q.filters[name] == value
}

// pageOf returns the page of items that q selects, and its metadata. key identifies an item, and
// items are sorted by it. An item that exists during all requests is on exactly one page.
func pageOf[T any](q *query, items []T, key func(*T) []string) ([]T, api.ListMeta) {
	if q.after != nil {
		at, found := slices.BinarySearchFunc(items, q.after, func(item T, after []string) int { return slices.Compare(key(&item), after) })
		if found {
			at++
		}
		items = items[at:]
	}
	if q.limit == 0 || len(items) <= q.limit {
		return items, api.ListMeta{}
	}
	token, err := json.Marshal(append([]string{q.list}, key(&items[q.limit-1])...))
	if err != nil {
		return items, api.ListMeta{} // strings can always be encoded
	}
	return items[:q.limit], api.ListMeta{
		Continue: base64.RawURLEncoding.EncodeToString(token), RemainingItemCount: new(int64(len(items) - q.limit)),
	}
}

// writeList writes a list as JSON, one item after the other: the response is never in memory as a
// whole. head has the fields before items, without the brace that ends them. of returns what is
// written for an item, and false to leave it out.
func writeList[T any](w http.ResponseWriter, head any, items []T, of func(*T) (any, bool)) {
	text, err := json.Marshal(head)
	if err != nil {
		fail(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := bufio.NewWriterSize(w, 32<<10) // keeps the first error: the caller has left
	defer out.Flush()
	text = text[:len(text)-1]
	out.Write(text)
	if len(text) > 1 {
		out.WriteByte(',')
	}
	out.WriteString(`"items":[`)
	written := false
	for i := range items {
		item, ok := of(&items[i])
		if !ok {
			continue
		}
		text, err := json.Marshal(item)
		if err != nil {
			continue // a number that JSON cannot represent
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
