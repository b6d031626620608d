package sdk

// KV keeps values from one attempt of a probe to the next, up to 64 KiB of keys and values. Changes are
// kept if the attempt ends with an outcome, and dropped if it ends with an error. The values exist as long
// as the probe. KV needs the capability "kv".
type KV struct{ draft draft }

// KV returns the key-value store of the probe.
func (r *Request) KV() *KV { return &r.kv }
