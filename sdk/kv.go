package sdk

// KV is what a probe keeps from attempt to attempt: up to 64 KiB of keys and values. What
// an attempt changes stays only if the attempt ends with an outcome, and all goes when the
// probe does. It needs the capability "kv".
type KV struct{ draft draft }

// KV returns what the probe keeps.
func (r *Request) KV() *KV { return &r.kv }
