package targets_test

import (
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// answer returns the response to a query for SRV records: NXDOMAIN if there are none.
func (s *nameServer) answer(t *testing.T, question []byte) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(question)
	if err != nil {
		t.Error(err)
		return nil
	}
	q, err := p.Question()
	if err != nil {
		t.Error(err)
		return nil
	}
	records := *s.records.Load()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true}, Questions: []dnsmessage.Question{q}}
	if len(records) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, r := range records {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.SRVResource{Port: r.port, Target: dnsmessage.MustNewName(r.target)},
		})
	}
	text, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return text
}
