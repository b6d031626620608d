package sdk

import "github.com/daeace23/prober/internal/abi"

// DNSQuery is what [LookupDNS] asks. Only Name is required.
type DNSQuery struct {
	Name   string
	Type   string // A ("" too), AAAA, CNAME, MX, NS, PTR, SOA, SRV or TXT
	Server string // asked in place of the system's; "target" is the probe's own
}

// DNSAnswer is what a server knows of a name. That the name does not exist is an answer
// too, with the RCode NXDOMAIN.
type DNSAnswer = abi.DNSAnswer

// DNSRecord is one record of a [DNSAnswer], its data as in a zone file.
type DNSRecord = abi.DNSRecord
