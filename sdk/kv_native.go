//go:build !wasip1

package sdk

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/daeace23/prober/internal/abi"
)

const maxKVKey = 256 // bytes

// store has the values of a native probe.
type store struct {
	mu   sync.Mutex
	data map[string][]byte // never modified, only replaced
}

// draft has the values of one attempt. commit copies them to the store or to [Host.KV].
type draft struct {
	store   *store
	played  map[string][]byte // [Host.KV], used instead of store if not nil
	data    map[string][]byte
	changed bool
}

func (d *draft) begin(s *store, played map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*d = draft{store: s, played: played, data: s.data}
	if played != nil {
		d.data = played
	}
}

// write returns the map to modify.
func (d *draft) write() map[string][]byte {
	if !d.changed {
		d.data = maps.Clone(d.data)
		if d.data == nil {
			d.data = make(map[string][]byte)
		}
		d.changed = true
	}
	return d.data
}

func (d *draft) commit() {
	switch {
	case !d.changed:
	case d.played != nil:
		clear(d.played)
		maps.Copy(d.played, d.data)
	default:
		d.store.mu.Lock()
		defer d.store.mu.Unlock()
		d.store.data = d.data
	}
}

func checkKey(key string) error {
	if key == "" || len(key) > maxKVKey {
		return fmt.Errorf("kv: a key has 1 to %d bytes", maxKVKey)
	}
	return nil
}

// Get returns the value of key, nil if there is none.
func (k *KV) Get(key string) ([]byte, error) {
	value, ok := k.draft.data[key]
	if err := checkKey(key); err != nil || !ok {
		return nil, err
	}
	return append([]byte{}, value...), nil
}

// Set stores value under key, which must have 1 to 256 bytes. It returns an error, and changes nothing, if
// a limit would be exceeded.
func (k *KV) Set(key string, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	size := len(key) + len(value)
	for name, other := range k.draft.data {
		if name != key {
			size += len(name) + len(other)
		}
	}
	if size > abi.MaxKV {
		return fmt.Errorf("kv: more than %d bytes", abi.MaxKV)
	}
	if _, known := k.draft.data[key]; !known && len(k.draft.data) >= abi.MaxKVKeys {
		return fmt.Errorf("kv: more than %d keys", abi.MaxKVKeys)
	}
	k.draft.write()[key] = slices.Clone(value)
	return nil
}

// Delete removes key, if it exists.
func (k *KV) Delete(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if _, ok := k.draft.data[key]; ok {
		delete(k.draft.write(), key)
	}
	return nil
}
