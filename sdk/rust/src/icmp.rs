//! ICMP echo requests by the host: ping. The manifest requests the capability "icmp".

use crate::net::millis;
use crate::{check, host, json, pull};
use std::io;
use std::time::Duration;

/// An echo request. The default value addresses the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// A name or an address, instead of the target.
    pub host: String,
    /// "4", "6", "4,6" or "6,4"; "" is any address.
    pub ip_family: String,
    /// The source address, one of the host's addresses.
    pub source_address: String,
    /// The bytes after the ICMP header; 0 means 56.
    pub payload: u32,
    /// The TTL of IPv4; 0 means the system's default.
    pub hop_limit: u32,
    /// Do not fragment the request.
    pub dont_fragment: bool,
}

/// The reply to an echo request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    pub local: String,
    pub remote: String,
    pub payload: u32,
    /// The remaining hop limit of the reply; 0 if it is unknown.
    pub hop_limit: u32,
    /// Durations in seconds: of the name look-up, of opening a socket, and from the request to the reply.
    pub dns: f64,
    pub setup: f64,
    pub rtt: f64,
}

impl Request {
    fn to_json(&self) -> String {
        let texts = [("host", &self.host), ("ipFamily", &self.ip_family), ("sourceAddress", &self.source_address)];
        let numbers = [("payload", self.payload), ("hopLimit", self.hop_limit)];
        let mut fields: Vec<(&str, String)> = texts.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| (*n, json::quote(v))).collect();
        fields.extend(numbers.iter().filter(|(_, v)| *v > 0).map(|(n, v)| (*n, v.to_string())));
        if self.dont_fragment {
            fields.push(("dontFragment", "true".into()));
        }
        json::object(fields)
    }
}

/// Sends a request, and waits for its reply.
pub fn echo(request: &Request, timeout: Option<Duration>) -> io::Result<Reply> {
    let req = request.to_json();
    let handle = check(unsafe { host::icmp_echo(req.as_ptr(), req.len(), millis(timeout)) })? as i32;
    let doc = pull(512, |buf, cap| unsafe { host::icmp_read(handle, buf, cap) })?;
    Ok(parse(&String::from_utf8_lossy(&doc)))
}

fn parse(doc: &str) -> Reply {
    let text = |path: &str| json::lookup(doc, path).map(json::text).unwrap_or_default();
    let number = |path: &str| text(path).parse().unwrap_or_default();
    let seconds = |path: &str| text(path).parse().unwrap_or_default();
    Reply {
        local: text("local"),
        remote: text("remote"),
        payload: number("payload"),
        hop_limit: number("hopLimit"),
        dns: seconds("timings.dns"),
        setup: seconds("timings.setup"),
        rtt: seconds("timings.rtt"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written() {
        assert_eq!(Request::default().to_json(), "{}");
        let full = Request {
            host: "db".into(), ip_family: "4".into(), source_address: "10.0.0.1".into(), payload: 8, hop_limit: 1, dont_fragment: true,
        };
        assert_eq!(
            full.to_json(),
            r#"{"host":"db","ipFamily":"4","sourceAddress":"10.0.0.1","payload":8,"hopLimit":1,"dontFragment":true}"#
        );
    }

    #[test]
    fn a_reply_is_read() {
        let got = parse(r#"{"local":"10.0.0.1","remote":"10.0.0.7","payload":8,"hopLimit":63,"timings":{"dns":0.5,"setup":0.25,"rtt":1}}"#);
        let want = Reply { local: "10.0.0.1".into(), remote: "10.0.0.7".into(), payload: 8, hop_limit: 63, dns: 0.5, setup: 0.25, rtt: 1.0 };
        assert_eq!(got, want);
    }
}
