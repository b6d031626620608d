package guest

import (
	"maps"
	"slices"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
)

// draft holds the changes that one call makes to a store. They are committed if the call ends
// normally.
type draft struct {
	store   *attempt.Store    // nil if kv is unavailable
	data    map[string][]byte // nil until the first use
	changed bool
}

func (d *draft) read() map[string][]byte {
	if d.data == nil {
		d.data = d.store.Load()
	}
	return d.data
}

// write returns a copy of the data that may be changed.
func (d *draft) write() map[string][]byte {
	if !d.changed {
		d.data = maps.Clone(d.read())
		if d.data == nil {
			d.data = make(map[string][]byte)
		}
		d.changed = true
	}
	return d.data
}

// commit stores the changes.
func (d *draft) commit() {
	if d.changed {
		d.store.Replace(d.data)
	}
}

func kvFuncs() map[string]hostFunc {
	return map[string]hostFunc{"get": i32(kvGet), "set": i32(kvSet), "delete": i32(kvDelete)}
}

const maxKVKey = 256 // bytes

// kvKey returns the key of a host call, or the negative number of an error.
func (c *Call) kvKey(mem api.Memory, a args) (string, int32) {
	if c.kv.store == nil {
		return "", c.fail(abi.EPERM, "kv can be reached from probe only")
	}
	if n := uint32(a[1]); n == 0 || n > maxKVKey {
		return "", c.fail(abi.EINVAL, "kv: a key has 1 to %d bytes", maxKVKey)
	}
	key, ok := a.span(mem, 0)
	if !ok {
		return "", c.badPointer()
	}
	return string(key), 0
}

func kvGet(c *Call, mem api.Memory, a args) int32 {
	key, bad := c.kvKey(mem, a)
	if bad != 0 {
		return bad
	}
	value, ok := c.kv.read()[key]
	if !ok {
		return c.missing("kv has no %.100q", []byte(key))
	}
	return c.put(mem, a, 2, value)
}

func kvSet(c *Call, mem api.Memory, a args) int32 {
	key, bad := c.kvKey(mem, a)
	if bad != 0 {
		return bad
	}
	value, ok := a.span(mem, 2)
	if !ok {
		return c.badPointer()
	}
	size := len(key) + len(value)
	for k, v := range c.kv.read() {
		if k != key {
			size += len(k) + len(v)
		}
	}
	if most := c.plugin.Limits.KV; size > most {
		c.Hit(plugin.LimitKV)
		return c.fail(abi.EDQUOT, "kv: more than %d bytes", most)
	}
	if _, known := c.kv.read()[key]; !known && len(c.kv.read()) >= abi.MaxKVKeys {
		c.Hit(plugin.LimitKV)
		return c.fail(abi.EDQUOT, "kv: more than %d keys", abi.MaxKVKeys)
	}
	c.kv.write()[key] = slices.Clone(value)
	return 0
}

func kvDelete(c *Call, mem api.Memory, a args) int32 {
	key, bad := c.kvKey(mem, a)
	if bad != 0 {
		return bad
	}
	if _, ok := c.kv.read()[key]; ok {
		delete(c.kv.write(), key)
	}
	return 0
}
