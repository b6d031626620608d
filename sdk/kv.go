package sdk

// KV keeps values from one attempt of a probe to the next: up to 64 KiB of keys and values.
// Changes are kept if the attempt ends with an outcome, and dropped if it ends with an error.
// The values live as long as the probe. It needs the capability "kv".
type KV struct{ draft draft }

// KV returns the values that the probe keeps.
func (r *Request) KV() *KV { return &r.kv }
