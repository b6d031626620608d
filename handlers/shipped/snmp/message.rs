//! The messages of SNMP (RFC 3416): a version, a community, and a PDU with a request ID and bindings of values.

use common::ber::{element, Reader, INTEGER, OCTETS, SEQUENCE};
use std::fmt;

const NULL: u8 = 0x05;
const OBJECT_IDENTIFIER: u8 = 0x06;
const GET: u8 = 0xa0;
const RESPONSE: u8 = 0xa2;

/// The most numbers of an object identifier.
const MAX_ARCS: usize = 128;

/// An object identifier, such as 1.3.6.1.2.1.1.3.0.
#[derive(Clone, PartialEq)]
pub struct Oid(Vec<u32>);

impl Oid {
    /// Parses a text, which may begin with a dot.
    pub fn parse(text: &str) -> Option<Oid> {
        let arcs: Option<Vec<u32>> = text.strip_prefix('.').unwrap_or(text).split('.').map(arc).collect();
        let arcs = arcs?;
        let fits = (2..=MAX_ARCS).contains(&arcs.len()) && arcs[0] <= 2 && (arcs[1] < 40 || arcs[0] == 2 && arcs[1] <= u32::MAX - 80);
        fits.then(|| Oid(arcs))
    }

    fn encode(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for arc in std::iter::once(self.0[0] * 40 + self.0[1]).chain(self.0[2..].iter().copied()) {
            let digits = (1..5).take_while(|n| arc >> (7 * n) > 0).count();
            data.extend((0..=digits).rev().map(|n| (arc >> (7 * n)) as u8 & 0x7f | if n > 0 { 0x80 } else { 0 }));
        }
        data
    }

    fn decode(content: &[u8]) -> Option<Oid> {
        let mut arcs: Vec<u32> = Vec::new();
        let mut arc: u32 = 0;
        for b in content {
            arc = arc.checked_mul(128)?.checked_add(u32::from(b & 0x7f))?;
            if b & 0x80 != 0 {
                continue;
            }
            if arcs.is_empty() {
                let first = (arc / 40).min(2);
                arcs.push(first);
                arc -= first * 40;
            }
            arcs.push(arc);
            arc = 0;
        }
        let whole = content.last().map_or(false, |b| b & 0x80 == 0) && arcs.len() <= MAX_ARCS;
        whole.then(|| Oid(arcs))
    }
}

fn arc(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arcs: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&arcs.join("."))
    }
}

/// A request for the value of an object.
pub struct Get {
    pub version: u8, // 0 is version 1, and 1 version 2c
    pub community: String,
    pub oid: Oid,
    pub id: [u8; 4],
}

impl Get {
    /// Returns a request with a random ID.
    pub fn new(version: u8, community: String, oid: Oid) -> std::io::Result<Get> {
        let mut id = [0; 4];
        prober::random(&mut id)?;
        id[0] = id[0] & 0x7f | 1; // positive, and as short as an integer must be
        Ok(Get { version, community, oid, id })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let binding = element(SEQUENCE, &[element(OBJECT_IDENTIFIER, &self.oid.encode()), element(NULL, &[])].concat());
        let zero = element(INTEGER, &[0]);
        let pdu = [element(INTEGER, &self.id), zero.clone(), zero, element(SEQUENCE, &binding)].concat();
        let message = [element(INTEGER, &[self.version]), element(OCTETS, self.community.as_bytes()), element(GET, &pdu)].concat();
        element(SEQUENCE, &message)
    }

    /// Parses the answer to the request. It returns None for any other datagram.
    pub fn answer(&self, data: &[u8]) -> Option<Result<Answer, String>> {
        let mut message = Reader(Reader(data).expect(SEQUENCE)?);
        let version = message.expect(INTEGER)?;
        message.expect(OCTETS)?; // the community
        let mut pdu = Reader(message.expect(RESPONSE)?);
        if version != [self.version] || pdu.expect(INTEGER)? != self.id {
            return None;
        }
        Some(self.parse(&mut pdu).unwrap_or_else(|| Err("a malformed answer".into())))
    }

    fn parse(&self, pdu: &mut Reader) -> Option<Result<Answer, String>> {
        let status = pdu.number(INTEGER)?;
        pdu.number(INTEGER)?; // the index of the binding
        let mut bindings = Reader(pdu.expect(SEQUENCE)?);
        if status != 0 {
            return Some(Ok(Answer::Refused(status)));
        }
        let mut binding = Reader(bindings.expect(SEQUENCE)?);
        let oid = Oid::decode(binding.expect(OBJECT_IDENTIFIER)?)?;
        if oid != self.oid {
            return Some(Err(format!("an answer about {}, want {}", oid, self.oid)));
        }
        let (tag, content) = binding.next()?;
        value(tag, content).map(Ok)
    }
}

/// The answer of an agent.
pub enum Answer {
    /// The status of an error.
    Refused(u32),
    /// Why the object has no value.
    Missing(&'static str),
    Number(String),
    Text(String),
}

/// Returns the value of a binding.
fn value(tag: u8, content: &[u8]) -> Option<Answer> {
    Some(match tag {
        INTEGER => Answer::Number(signed(content)?.to_string()),
        0x41..=0x43 | 0x46 => Answer::Number(unsigned(content)?.to_string()),
        OBJECT_IDENTIFIER => Answer::Text(Oid::decode(content)?.to_string()),
        0x40 if content.len() == 4 => Answer::Text(std::net::Ipv4Addr::new(content[0], content[1], content[2], content[3]).to_string()),
        OCTETS | 0x44 => Answer::Text(octets(content)),
        NULL => Answer::Missing("it is null"),
        0x80 => Answer::Missing("no such object"),
        0x81 => Answer::Missing("no such instance"),
        0x82 => Answer::Missing("it is behind the end of the view"),
        _ => return None,
    })
}

fn signed(content: &[u8]) -> Option<i64> {
    let first = *content.first().filter(|_| content.len() <= 8)?;
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Some(content.iter().fold(sign, |n, b| n << 8 | i64::from(*b)))
}

fn unsigned(content: &[u8]) -> Option<u64> {
    let digits = if content.len() == 9 && content[0] == 0 { &content[1..] } else { content };
    matches!(digits.len(), 1..=8).then(|| digits.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// Returns octets as text, or as digits such as 00:1a if they are none.
fn octets(content: &[u8]) -> String {
    match std::str::from_utf8(content) {
        Ok(text) if !text.chars().any(|c| c.is_control() && !"\t\r\n".contains(c)) => text.into(),
        _ => content.iter().map(|b| format!("{:02x}", b)).collect::<Vec<String>>().join(":"),
    }
}
