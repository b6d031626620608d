//! Calls of gRPC with one request message: their headers, messages and status.

use crate::http2::{Client, Response};
use common::peer::{shown, Error, Peer, Result};

pub const OK: u32 = 0;
pub const NOT_FOUND: u32 = 5;
pub const UNIMPLEMENTED: u32 = 12;

const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Checks the name and value of metadata.
pub fn check_metadata(name: &str, value: &str) -> std::result::Result<(), String> {
    if ["te", "content-type", "connection"].contains(&name) || name.starts_with("grpc-") {
        return Err(format!("metadata: {}: the name belongs to gRPC", name));
    }
    if !value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Err(format!("metadata: {}: the value has more than printable ASCII; a name that ends in -bin takes base64", name));
    }
    Ok(())
}

/// The end of a call.
pub struct Reply {
    pub code: u32,
    text: String, // of the status
    pub message: Vec<u8>,
}

impl Reply {
    /// Returns what the server said about the status, after a colon, or "".
    pub fn said(&self) -> String {
        if self.text.is_empty() {
            String::new()
        } else {
            format!(": {}", self.text)
        }
    }

    /// Returns the status as an error.
    pub fn refused(&self) -> Error {
        let name = CODES.get(self.code as usize).map_or_else(|| format!("code {}", self.code), |name| name.to_string());
        Error::Refused(format!("the call fails with {}{}", name, self.said()))
    }
}

/// Calls a method, and returns the first message of the answer.
pub fn call(client: &mut Client, peer: &mut Peer, authority: &str, path: &str, message: &[u8]) -> Result<Reply> {
    let scheme = if peer.config.flag("tls") { "https" } else { "http" };
    let mut headers: Vec<(&str, String)> = vec![
        (":method", "POST".into()),
        (":scheme", scheme.into()),
        (":path", path.into()),
        (":authority", authority.into()),
        ("te", "trailers".into()),
        ("content-type", "application/grpc".into()),
        ("user-agent", "prober-grpc-health".into()),
    ];
    if let Some(left) = prober::deadline() {
        headers.push(("grpc-timeout", format!("{}m", left.as_millis().clamp(1, 99_999_999)))); // eight digits at most
    }
    let metadata = peer.config.pairs("metadata");
    headers.extend(metadata.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let mut body = vec![0];
    body.extend_from_slice(&(message.len() as u32).to_be_bytes());
    body.extend_from_slice(message);
    peer.awaits("the call");
    let response = client.call(peer, &headers, &body)?;
    reply(peer, response)
}

fn reply(peer: &Peer, response: Response) -> Result<Reply> {
    let (status, kind) = (response.field(":status"), response.field("content-type"));
    if status != "200" {
        return Err(Error::Protocol(format!("HTTP status {:?}; a gRPC server answers 200", shown(status.as_bytes()))));
    }
    if !kind.starts_with("application/grpc") {
        return Err(Error::Protocol(format!("content-type {:?}; a gRPC server answers application/grpc", shown(kind.as_bytes()))));
    }
    let status = response.field("grpc-status");
    let code: u32 = match status.parse() {
        Ok(code) => code,
        Err(_) => return Err(peer.protocol(format!("the answer ends with the grpc-status {:?}, want a number", shown(status.as_bytes())))),
    };
    let mut reply = Reply { code, text: shown(&unescaped(&response.field("grpc-message"))), message: Vec::new() };
    if code != OK {
        return Ok(reply);
    }
    match *response.body {
        [0, a, b, c, d, ref rest @ ..] if rest.len() >= u32::from_be_bytes([a, b, c, d]) as usize => {
            reply.message = rest[..u32::from_be_bytes([a, b, c, d]) as usize].to_vec();
            Ok(reply)
        }
        [compressed, _, _, _, _, ..] if compressed != 0 => Err(peer.protocol("the answer is compressed, which was not asked for")),
        _ => Err(peer.protocol("the answer ends within its message")),
    }
}

/// Decodes the percent-encoding of the text of a status.
fn unescaped(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut i) = (text.as_bytes(), Vec::new(), 0);
    while i < bytes.len() {
        let code = text.get(i + 1..i + 3).filter(|_| bytes[i] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(bytes[i]));
        i += if code.is_some() { 3 } else { 1 };
    }
    out
}

/// Returns a field of a message, with bytes.
pub fn bytes_field(number: u8, value: &str) -> Vec<u8> {
    let (mut out, mut n) = (vec![number << 3 | 2], value.len());
    while n >= 128 {
        out.push(n as u8 | 128);
        n >>= 7;
    }
    out.push(n as u8);
    out.extend_from_slice(value.as_bytes());
    out
}

/// The value of a field of a message.
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Returns the fields of a message that are numbers or bytes; None if it is no message.
pub fn fields(mut data: &[u8]) -> Option<Vec<(u64, Value)>> {
    let mut all = Vec::new();
    while !data.is_empty() {
        let tag = varint(&mut data)?;
        let skipped = match tag & 7 {
            0 => {
                all.push((tag >> 3, Value::Number(varint(&mut data)?)));
                0
            }
            1 => 8,
            2 => {
                let n = usize::try_from(varint(&mut data)?).ok().filter(|n| *n <= data.len())?;
                all.push((tag >> 3, Value::Bytes(&data[..n])));
                n
            }
            5 => 4,
            _ => return None,
        };
        data = data.get(skipped..)?;
    }
    Some(all)
}

fn varint(data: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = data.split_first()?;
        *data = rest;
        n |= u64::from(first & 127) << shift;
        if *first < 128 {
            return Some(n);
        }
    }
    None
}
