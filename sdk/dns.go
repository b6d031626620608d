package sdk

import "github.com/daeace23/prober/internal/abi"

// DNSQuery is the question of [LookupDNS]. Only Name is required.
type DNSQuery struct {
	Name   string
	Type   string // A (also ""), AAAA, CNAME, MX, NS, PTR, SOA, SRV or TXT
	Server string // replaces the system's servers; "target" is the target of the probe
}

// DNSAnswer is the answer of a DNS server: its RCode (NXDOMAIN if the name does not exist), the Server, the
// duration Took, and the records in Answers.
type DNSAnswer = abi.DNSAnswer

// DNSRecord is one record of a [DNSAnswer]: its Name, Type, TTL in seconds, and Data in zone file format.
type DNSRecord = abi.DNSRecord
