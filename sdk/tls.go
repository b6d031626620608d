package sdk

import "github.com/daeace23/prober/internal/abi"

// TLSOptions is how [StartTLS] secures a connection.
type TLSOptions struct {
	ServerName         string   // "": the host that was dialled
	ALPN               []string // protocols to offer
	InsecureSkipVerify bool     // take any certificate
	CA                 string   // PEM, in place of the system's roots; "": those
}

// Certificate is one that the other side of a connection showed.
type Certificate = abi.Certificate
