//! The part of Kafka's protocol that the plugin needs. All versions of requests are those before the compact
//! formats. Read ask first.

use common::peer::{shown, Error, Peer, Result};
use std::convert::TryFrom;

/// The most bytes of an answer. It is read in chunks, so that memory does not grow with it.
const MAX_ANSWER: usize = 32 << 20;
const CHUNK: usize = 4096;

/// The most bytes of a string, or of a message of a login.
const MAX_BYTES: usize = 64 << 10;

/// The most bytes of the name of a topic.
const MAX_TOPIC: usize = 249;

const CLIENT: &str = "prober";

/// A kind of requests, in the version that the plugin speaks.
pub struct Api {
    pub name: &'static str,
    pub key: i16,
    pub version: i16,
}

pub const LIST_OFFSETS: Api = Api { name: "ListOffsets", key: 2, version: 1 };
pub const METADATA: Api = Api { name: "Metadata", key: 3, version: 4 };
pub const OFFSET_FETCH: Api = Api { name: "OffsetFetch", key: 9, version: 2 };
pub const FIND_COORDINATOR: Api = Api { name: "FindCoordinator", key: 10, version: 1 };
pub const SASL_HANDSHAKE: Api = Api { name: "SaslHandshake", key: 17, version: 1 };
pub const API_VERSIONS: Api = Api { name: "ApiVersions", key: 18, version: 0 };
pub const SASL_AUTHENTICATE: Api = Api { name: "SaslAuthenticate", key: 36, version: 0 };

/// A connection to a broker.
pub struct Broker<'p, 'a> {
    pub peer: &'p mut Peer<'a>,
    /// The number of the last request.
    pub number: &'p mut i32,
    /// Ends the names of requests, such as " at broker 2"; "" for the target.
    pub place: String,
}

impl<'p, 'a> Broker<'p, 'a> {
    /// Sends a request. step is its name in messages.
    pub fn ask(&mut self, api: &Api, step: &str, body: &[u8]) -> Result<Answer<'_, 'a>> {
        *self.number = self.number.wrapping_add(1);
        let mut request = [api.key.to_be_bytes(), api.version.to_be_bytes()].concat();
        request.extend_from_slice(&self.number.to_be_bytes());
        put_text(&mut request, CLIENT);
        request.extend_from_slice(body);
        self.peer.awaits(&format!("{}{}", step, self.place));
        self.peer.send(&[&(request.len() as u32).to_be_bytes(), &request[..]].concat())?;
        let head = self.peer.exact(4)?;
        let size = match number(&head).and_then(|n| usize::try_from(n).ok()) {
            Some(size) if (4..=MAX_ANSWER).contains(&size) => size,
            _ => return Err(self.peer.unexpected(&head)),
        };
        let wanted = *self.number;
        let mut answer = Answer { peer: self.peer, name: api.name, left: size, chunk: Vec::new(), at: 0 };
        match answer.i32()? {
            number if number == wanted => Ok(answer),
            number => Err(answer.peer.protocol(format!("an answer to request {}, want {}", number, wanted))),
        }
    }
}

/// An answer, which is read from its start to its end.
pub struct Answer<'s, 'a> {
    pub peer: &'s mut Peer<'a>,
    name: &'static str,
    left: usize, // bytes that are not in chunk
    chunk: Vec<u8>,
    at: usize, // of what is read of chunk
}

impl Answer<'_, '_> {
    pub fn malformed(&self) -> Error {
        self.peer.protocol(format!("a malformed answer to {}", self.name))
    }

    fn unread(&self) -> usize {
        self.left + self.chunk.len() - self.at
    }

    fn bytes(&mut self, n: usize) -> Result<Vec<u8>> {
        if n > MAX_BYTES {
            return Err(self.malformed());
        }
        let mut data = Vec::with_capacity(n);
        self.read(n, |part| data.extend_from_slice(part))?;
        Ok(data)
    }

    /// Reads n bytes, and calls each for their parts.
    fn read(&mut self, n: usize, mut each: impl FnMut(&[u8])) -> Result<()> {
        if n > self.unread() {
            return Err(self.malformed());
        }
        let mut left = n;
        while left > 0 {
            if self.at == self.chunk.len() {
                self.chunk = self.peer.exact(self.left.min(CHUNK))?;
                self.left -= self.chunk.len();
                self.at = 0;
            }
            let end = self.chunk.len().min(self.at + left);
            each(&self.chunk[self.at..end]);
            left -= end - self.at;
            self.at = end;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let data = self.bytes(N)?;
        <[u8; N]>::try_from(data.as_slice()).map_err(|_| self.malformed())
    }

    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads past n bytes.
    pub fn skip(&mut self, n: usize) -> Result<()> {
        self.read(n, |_| {})
    }

    /// Reads a string; a null is "".
    pub fn text(&mut self) -> Result<String> {
        match self.i16()? {
            -1 => Ok(String::new()),
            size => {
                let size = usize::try_from(size).map_err(|_| self.malformed())?;
                Ok(shown(&self.bytes(size)?))
            }
        }
    }

    /// Reads the name of a topic.
    pub fn topic(&mut self) -> Result<String> {
        match usize::try_from(self.i16()?) {
            Ok(size) if size <= MAX_TOPIC => Ok(self.bytes(size)?.iter().map(|b| if b.is_ascii_graphic() { *b as char } else { '?' }).collect()),
            _ => Err(self.malformed()),
        }
    }

    /// Reads bytes after their length.
    pub fn blob(&mut self) -> Result<Vec<u8>> {
        let size = usize::try_from(self.i32()?).map_err(|_| self.malformed())?;
        self.bytes(size)
    }

    /// Reads the number of items of an array, each of which has at least some bytes. A null is 0.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        match self.i32()? {
            -1 => Ok(0),
            n => match usize::try_from(n) {
                Ok(n) if n.saturating_mul(least) <= self.unread() => Ok(n),
                _ => Err(self.malformed()),
            },
        }
    }

    /// Ends an answer, of which nothing may be left.
    pub fn end(self) -> Result<()> {
        match self.unread() {
            0 => Ok(()),
            _ => Err(self.malformed()),
        }
    }
}

fn number(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(<[u8; 4]>::try_from(bytes).ok()?))
}

pub fn put_text(to: &mut Vec<u8>, text: &str) {
    let size = text.len().min(i16::MAX as usize);
    to.extend_from_slice(&(size as u16).to_be_bytes());
    to.extend_from_slice(&text.as_bytes()[..size]);
}

pub fn put_count(to: &mut Vec<u8>, n: usize) {
    to.extend_from_slice(&(n as u32).to_be_bytes());
}

/// Returns the text of an error.
pub fn reason(code: i16) -> String {
    let text = match code {
        3 => "unknown topic or partition",
        5 => "leader not available",
        6 => "not the leader of the partition",
        7 => "request timed out",
        14 => "the coordinator loads its offsets",
        15 => "the coordinator is not available",
        16 => "not the coordinator of the group",
        17 => "invalid topic",
        24 => "invalid name of a group",
        29 => "topic authorization failed",
        30 => "group authorization failed",
        31 => "cluster authorization failed",
        33 => "unsupported SASL mechanism",
        34 => "illegal SASL state",
        35 => "unsupported version",
        43 => "unsupported format of messages",
        56 => "storage error",
        58 => "SASL authentication failed",
        69 => "the group does not exist",
        78 => "the offset is not available yet",
        88 => "a transaction holds the offset",
        _ => "unexpected error",
    };
    format!("{} ({})", text, code)
}
