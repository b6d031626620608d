package testfile

import (
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// Fault is a kind of variants of a case in which its peers break the protocol. The check of hostile peers
// judges the result of these variants.
type Fault string

// The faults.
const (
	CutAndClose   Fault = "cut and close"
	CutAndReset   Fault = "cut and reset"
	AnotherAnswer Fault = "another answer"
	AnotherBody   Fault = "another body"
	Status        Fault = "status"
	RCode         Fault = "rcode"
	Unanswered    Fault = "no answer"
	ByteByByte    Fault = "byte by byte"
	Pauses        Fault = "pauses"
	AtOnce        Fault = "at once"
	Truncated     Fault = "truncated"
)

// Faults has every fault.
var Faults = []Fault{
	CutAndClose, CutAndReset, AnotherAnswer, AnotherBody, Status, RCode, Unanswered, ByteByByte, Pauses, AtOnce, Truncated,
}

func readAccepts(r *field.Reader, to *[]Fault) field.Read {
	return func(n *yamlpos.Node, path string) {
		*to = nil
		r.Items(n, path, func(n *yamlpos.Node, path string) {
			var one Fault
			yamlpos.OneOf(&r.Decoder, &one, Faults...)(n, path)
			*to = append(*to, one)
		})
	}
}
