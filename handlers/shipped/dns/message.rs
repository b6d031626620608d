//! Messages of DNS: the question, and the records of an answer as text.

use std::io::{Error, ErrorKind, Result};

/// The types that have a name here. Others are TYPE123, with data as in RFC 3597.
const TYPES: [(&str, u16); 16] = [
    ("A", 1), ("NS", 2), ("CNAME", 5), ("SOA", 6), ("PTR", 12), ("MX", 15), ("TXT", 16), ("AAAA", 28), ("SRV", 33), ("DS", 43),
    ("RRSIG", 46), ("DNSKEY", 48), ("HTTPS", 65), ("SPF", 99), ("ANY", 255), ("CAA", 257),
];
const CLASSES: [(&str, u16); 4] = [("IN", 1), ("CH", 3), ("HS", 4), ("ANY", 255)];
const CODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE",
];

/// The most pointers that a name may have.
const MAX_POINTERS: usize = 32;

/// A question, as it is sent.
pub struct Question {
    pub bytes: Vec<u8>,
}

impl Question {
    pub fn new(id: u16, name: &str, kind: &str, class: &str, recursion: bool) -> std::result::Result<Question, String> {
        let number = |names: &[(&str, u16)], prefix: &str, text: &str| {
            let known = names.iter().find(|(n, _)| *n == text).map(|(_, number)| *number);
            known.or_else(|| text.strip_prefix(prefix)?.parse().ok())
        };
        let kind = number(&TYPES, "TYPE", kind).ok_or_else(|| format!("queryType: {:?} is not a type of records", kind))?;
        let class = number(&CLASSES, "CLASS", class).ok_or_else(|| format!("queryClass: {:?} is not a class", class))?;
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[u8::from(recursion), 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for label in name.strip_suffix('.').unwrap_or(name).split('.').filter(|_| !name.is_empty() && name != ".") {
            if label.is_empty() || label.len() > 63 {
                return Err(format!("queryName: {:?} is not a name", name));
            }
            bytes.push(label.len() as u8);
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        if bytes.len() > 12 + 255 {
            return Err(format!("queryName: {:?} is not a name", name));
        }
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&class.to_be_bytes());
        Ok(Question { bytes })
    }

    /// Reports whether a message is the answer: with the same number, and the same question if it has
    /// one.
    pub fn is_answered_by(&self, message: &[u8]) -> bool {
        let question = &self.bytes[12..];
        let same = |got: &[u8]| got.eq_ignore_ascii_case(question);
        message.len() >= 12
            && message[..2] == self.bytes[..2]
            && message[2] & 0x80 != 0
            && (message[4..6] == [0, 0] || message.get(12..12 + question.len()).map_or(false, same))
    }
}

/// An answer.
pub struct Response {
    code: u8,
    /// The records of answer, authority and additional.
    pub sections: [Vec<Record>; 3],
}

impl Response {
    pub fn code_name(&self) -> String {
        CODES.get(usize::from(self.code)).map_or_else(|| format!("RCODE{}", self.code), |n| (*n).into())
    }
}

/// A record of an answer.
pub struct Record {
    /// "db.internal.\t60\tIN\tA\t10.0.0.7", as in a zone file.
    pub text: String,
    /// That of SOA.
    pub serial: Option<u32>,
}

/// Reports whether a message, which has a header, lacks records for which there was no room.
pub fn is_truncated(message: &[u8]) -> bool {
    message[2] & 2 != 0
}

/// Reads a message.
pub fn parse(message: &[u8]) -> Result<Response> {
    let mut reader = Reader { message, at: 4 };
    let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
    for _ in 0..counts[0] {
        reader.name()?;
        reader.take(4)?;
    }
    let mut sections = [Vec::new(), Vec::new(), Vec::new()];
    for (section, count) in sections.iter_mut().zip(&counts[1..]) {
        for _ in 0..*count {
            section.push(reader.record()?);
        }
    }
    Ok(Response { code: message[3] & 15, sections })
}

fn malformed() -> Error {
    Error::new(ErrorKind::InvalidData, "the answer is malformed")
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let bytes = self.message.get(self.at..self.at + n).ok_or_else(malformed)?;
        self.at += n;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16> {
        let b = self.take(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    fn u32(&mut self) -> Result<u32> {
        let b = self.take(4)?;
        Ok(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Returns a name with a dot at its end.
    fn name(&mut self) -> Result<String> {
        let mut name = String::new();
        let mut after = None; // where reading goes on after the first pointer
        for _ in 0..MAX_POINTERS + 128 {
            let length = self.u8()?;
            match length {
                0 => {
                    self.at = after.unwrap_or(self.at);
                    return Ok(if name.is_empty() { ".".into() } else { name });
                }
                1..=63 => {
                    let label = self.take(usize::from(length))?;
                    label.iter().for_each(|b| push_escaped(&mut name, *b, b" .\\\"();@$'"));
                    name.push('.');
                }
                0xc0..=0xff => {
                    let to = usize::from(length & 0x3f) << 8 | usize::from(self.u8()?);
                    after = after.or(Some(self.at));
                    self.at = to;
                }
                _ => return Err(malformed()),
            }
        }
        Err(malformed())
    }

    /// Returns a string of TXT in quotes.
    fn quoted(&mut self) -> Result<String> {
        let length = usize::from(self.u8()?);
        let mut text = String::from("\"");
        self.take(length)?.iter().for_each(|b| push_escaped(&mut text, *b, b"\"\\"));
        text.push('"');
        Ok(text)
    }

    fn record(&mut self) -> Result<Record> {
        let name = self.name()?;
        let (kind, class, ttl) = (self.u16()?, self.u16()?, self.u32()?);
        let length = usize::from(self.u16()?);
        let end = self.at + length;
        if end > self.message.len() {
            return Err(malformed());
        }
        let (data, serial) = self.data(kind, end)?;
        if self.at != end {
            return Err(malformed());
        }
        let label = |names: &[(&str, u16)], prefix: &str, number: u16| {
            let known = names.iter().find(|(_, n)| *n == number);
            known.map_or_else(|| format!("{}{}", prefix, number), |(name, _)| (*name).into())
        };
        let text = format!("{}\t{}\t{}\t{}\t{}", name, ttl, label(&CLASSES, "CLASS", class), label(&TYPES, "TYPE", kind), data);
        Ok(Record { text, serial })
    }

    /// Returns the data of a record, which ends at end, as text, and the serial number of SOA.
    fn data(&mut self, kind: u16, end: usize) -> Result<(String, Option<u32>)> {
        let text = match kind {
            1 => {
                let b = self.take(4)?;
                std::net::Ipv4Addr::new(b[0], b[1], b[2], b[3]).to_string()
            }
            28 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(self.take(16)?);
                std::net::Ipv6Addr::from(octets).to_string()
            }
            2 | 5 | 12 => self.name()?,
            15 => format!("{} {}", self.u16()?, self.name()?),
            33 => format!("{} {} {} {}", self.u16()?, self.u16()?, self.u16()?, self.name()?),
            16 | 99 => {
                let mut strings = Vec::new();
                while self.at < end {
                    strings.push(self.quoted()?);
                }
                strings.join(" ")
            }
            6 => {
                let (server, mail, serial) = (self.name()?, self.name()?, self.u32()?);
                let text = format!("{} {} {} {} {} {} {}", server, mail, serial, self.u32()?, self.u32()?, self.u32()?, self.u32()?);
                return Ok((text, Some(serial)));
            }
            257 => {
                let flags = self.u8()?;
                let length = usize::from(self.u8()?);
                let tag = String::from_utf8_lossy(self.take(length)?).into_owned();
                let value = self.take(end.checked_sub(self.at).ok_or_else(malformed)?)?;
                let mut text = String::new();
                value.iter().for_each(|b| push_escaped(&mut text, *b, b"\"\\"));
                format!("{} {} \"{}\"", flags, tag, text)
            }
            _ => {
                let data = self.take(end - self.at)?;
                let hex: String = data.iter().map(|b| format!("{:02x}", b)).collect();
                format!("\\# {} {}", data.len(), hex)
            }
        };
        Ok((text, None))
    }
}

/// Adds a byte to a text as zone files have it.
fn push_escaped(text: &mut String, b: u8, special: &[u8]) {
    match b {
        _ if special.contains(&b) => {
            text.push('\\');
            text.push(b.into());
        }
        b' '..=b'~' => text.push(b.into()),
        _ => *text += &format!("\\{:03}", b),
    }
}
