//! DNS lookups by the host. The manifest requests the capability "dns".

use crate::net::millis;
use crate::{check, host, json, pull};
use std::io;
use std::time::Duration;

/// The answer to a lookup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// "NOERROR", "NXDOMAIN", "SERVFAIL", ….
    pub rcode: String,
    /// The address that answered.
    pub server: String,
    pub records: Vec<Record>,
    /// How long the lookup took.
    pub seconds: f64,
}

/// One record; data is as in a zone file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub name: String,
    pub kind: String,
    pub ttl: u32,
    pub data: String,
}

/// Looks up a name. kind is "A", "AAAA", "TXT" and so on; server is "" for the system's,
/// "target" or "host:port".
pub fn lookup(name: &str, kind: &str, server: &str, timeout: Option<Duration>) -> io::Result<Answer> {
    let mut fields = vec![("name", json::quote(name)), ("type", json::quote(kind))];
    if !server.is_empty() {
        fields.push(("server", json::quote(server)));
    }
    let req = json::object(fields);
    let handle = check(unsafe { host::dns_lookup(req.as_ptr(), req.len(), millis(timeout)) })? as i32;
    let doc = pull(1024, |buf, cap| unsafe { host::dns_read(handle, buf, cap, millis(timeout)) })?;
    Ok(parse(&String::from_utf8_lossy(&doc)))
}

fn parse(doc: &str) -> Answer {
    let text = |of: &str, name: &str| json::lookup(of, name).map(json::text).unwrap_or_default();
    let records = json::items(json::lookup(doc, "answers").unwrap_or_default());
    Answer {
        rcode: text(doc, "rcode"),
        server: text(doc, "server"),
        seconds: text(doc, "seconds").parse().unwrap_or_default(),
        records: records
            .into_iter()
            .map(|r| Record {
                name: text(r, "name"),
                kind: text(r, "type"),
                ttl: text(r, "ttl").parse().unwrap_or_default(),
                data: text(r, "data"),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let answer = parse(r#"{"rcode":"NOERROR","seconds":0.5,"answers":[{"name":"db","type":"A","ttl":60,"data":"10.0.0.7"}]}"#);
        let record = Record { name: "db".into(), kind: "A".into(), ttl: 60, data: "10.0.0.7".into() };
        assert_eq!(answer, Answer { rcode: "NOERROR".into(), server: "".into(), seconds: 0.5, records: vec![record] });
        assert_eq!(parse("{\"rcode\":\"NXDOMAIN\"}").records, []);
    }
}
