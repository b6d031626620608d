//! The messages of STUN (RFC 8489): a header of 20 bytes, and attributes that are filled up to four bytes.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const HEADER: usize = 20;

const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// The types of messages.
const REQUEST: u16 = 0x0001;
const SUCCESS: u16 = 0x0101;
const ERROR: u16 = 0x0111;

/// The types of attributes.
const MAPPED_ADDRESS: u16 = 0x0001;
const ERROR_CODE: u16 = 0x0009;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const SOFTWARE: u16 = 0x8022;
const FINGERPRINT: u16 = 0x8028;

/// What the checksum of a fingerprint is combined with.
const FINGERPRINT_MASK: u32 = 0x5354_554e;

/// A binding request.
pub struct Request {
    id: [u8; 12],
}

impl Request {
    pub fn new() -> io::Result<Request> {
        let mut id = [0; 12];
        prober::random(&mut id)?;
        Ok(Request { id })
    }

    pub fn bytes(&self) -> Vec<u8> {
        [&REQUEST.to_be_bytes()[..], &[0, 0], &COOKIE, &self.id].concat()
    }

    /// Reports whether a header begins an answer to the request.
    pub fn is_answered_by(&self, header: &[u8]) -> bool {
        header.len() >= HEADER && matches!(number(&header[..2]), SUCCESS | ERROR) && header[4..8] == COOKIE && header[8..HEADER] == self.id
    }

    /// Parses an answer. A problem is returned as text.
    pub fn parse(&self, message: &[u8]) -> Result<Answer, String> {
        if body_size(message) != message.len() - HEADER {
            return Err(format!("a message of {} bytes that announces {}", message.len() - HEADER, body_size(message)));
        }
        let mut answer = Answer { code: 0, reason: String::new(), mapped: None, software: String::new() };
        let mut xored = None;
        let mut at = HEADER;
        while at < message.len() {
            let (kind, value) = attribute(&message[at..]).ok_or_else(|| format!("a malformed attribute at byte {}", at))?;
            match kind {
                XOR_MAPPED_ADDRESS if xored.is_none() => xored = Some(self.address(value, true).ok_or("a malformed XOR-MAPPED-ADDRESS")?),
                MAPPED_ADDRESS if answer.mapped.is_none() => answer.mapped = Some(self.address(value, false).ok_or("a malformed MAPPED-ADDRESS")?),
                ERROR_CODE if answer.code == 0 && value.len() >= 4 => {
                    answer.code = u16::from(value[2] & 7) * 100 + u16::from(value[3]);
                    answer.reason = common::peer::shown(&value[4..]);
                }
                SOFTWARE => answer.software = common::peer::shown(value),
                FINGERPRINT if value != (crc32(&message[..at]) ^ FINGERPRINT_MASK).to_be_bytes() => return Err("a wrong fingerprint".into()),
                _ => {}
            }
            at += 4 + (value.len() + 3) / 4 * 4;
        }
        if number(&message[..2]) == ERROR && answer.code == 0 {
            return Err("an error without a code".into());
        }
        answer.mapped = xored.or(answer.mapped);
        Ok(answer)
    }

    /// Returns the address of an attribute.
    fn address(&self, value: &[u8], xored: bool) -> Option<SocketAddr> {
        let mut plain = value.to_vec();
        if xored {
            let mask = [&COOKIE[..2], &COOKIE, &self.id].concat(); // of the port, and of the address
            plain.iter_mut().skip(2).zip(mask).for_each(|(b, m)| *b ^= m);
        }
        let ip: IpAddr = match (plain.get(1)?, plain.len()) {
            (1, 8) => Ipv4Addr::new(plain[4], plain[5], plain[6], plain[7]).into(),
            (2, 20) => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&plain[4..]);
                Ipv6Addr::from(octets).into()
            }
            _ => return None,
        };
        Some(SocketAddr::new(ip, number(&plain[2..4])))
    }
}

/// What a server answers.
pub struct Answer {
    pub code: u16, // 0 without an error
    pub reason: String,
    /// The address of the client, as the server sees it.
    pub mapped: Option<SocketAddr>,
    pub software: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.code)?;
        if self.reason.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.reason)
    }
}

/// Returns the number of bytes behind the header.
pub fn body_size(header: &[u8]) -> usize {
    usize::from(number(&header[2..4]))
}

/// Returns the type and the value of the first attribute.
fn attribute(rest: &[u8]) -> Option<(u16, &[u8])> {
    let head = rest.get(..4)?;
    let size = usize::from(number(&head[2..]));
    rest.get(..4 + (size + 3) / 4 * 4)?; // with what fills it up
    Some((number(&head[..2]), &rest[4..4 + size]))
}

fn number(digits: &[u8]) -> u16 {
    u16::from_be_bytes([digits[0], digits[1]])
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, b| (0..8).fold(crc ^ u32::from(*b), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 }))
}
