package sdk

import "github.com/daeace23/prober/internal/abi"

// DNSQuery is what [LookupDNS] asks. Only Name is required.
type DNSQuery struct {
	Name   string
	Type   string // A ("" too), AAAA, CNAME, MX, NS, PTR, SOA, SRV or TXT
	Server string // asked in place of the system's; "target" is the probe's own
}

// DNSAnswer is what a server knows of a name. That the name does not exist is an answer
// too, with the RCode NXDOMAIN. It has the Server that answered, the time it Took, and the
// records, in Answers.
type DNSAnswer = abi.DNSAnswer

// DNSRecord is one record of a [DNSAnswer]: its Name, Type, TTL in seconds, and Data as in a
// zone file.
type DNSRecord = abi.DNSRecord
