//! Packets of SSH before the keys are in use, as in RFC 4253, and the values in them.

use common::peer::{shown, Error, Peer, Result};

pub const DISCONNECT: u8 = 1;
pub const IGNORE: u8 = 2;
pub const UNIMPLEMENTED: u8 = 3;
pub const DEBUG: u8 = 4;
pub const KEXINIT: u8 = 20;
pub const KEX_INIT: u8 = 30;
pub const KEX_REPLY: u8 = 31;

/// The most bytes of a packet, as the protocol requires of all implementations.
const MAX_PACKET: u32 = 35000;

/// The most messages before the awaited one.
const MAX_OTHERS: usize = 20;

pub fn put(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Adds a positive number, highest byte first.
pub fn put_number(out: &mut Vec<u8>, number: &[u8]) {
    let start = number.iter().position(|b| *b != 0).unwrap_or(number.len());
    let mut digits = number[start..].to_vec();
    if digits.first().map_or(false, |b| *b > 127) {
        digits.insert(0, 0);
    }
    put(out, &digits);
}

pub fn send(peer: &mut Peer, payload: &[u8]) -> Result<()> {
    let padding = 4 + (8 - (payload.len() + 9) % 8) % 8;
    let mut packet = ((payload.len() + 1 + padding) as u32).to_be_bytes().to_vec();
    packet.push(padding as u8);
    packet.extend_from_slice(payload);
    packet.resize(packet.len() + padding, 0);
    peer.send(&packet)
}

/// Returns the payload of the next packet of a kind. name is its name in messages.
pub fn receive(peer: &mut Peer, kind: u8, name: &str) -> Result<Vec<u8>> {
    for _ in 0..MAX_OTHERS {
        let payload = next(peer).map_err(|e| e.during(name))?;
        match payload[0] {
            k if k == kind => return Ok(payload),
            IGNORE | DEBUG | UNIMPLEMENTED => {}
            DISCONNECT => return Err(disconnected(&payload).during(name)),
            other => return Err(peer.protocol(format!("it sent message {}, want {}", other, kind)).during(name)),
        }
    }
    Err(peer.protocol(format!("more than {} other messages", MAX_OTHERS)).during(name))
}

fn next(peer: &mut Peer) -> Result<Vec<u8>> {
    let head = peer.exact(4)?;
    let size = head.iter().fold(0, |v: u32, b| v << 8 | u32::from(*b));
    if !(8..=MAX_PACKET).contains(&size) {
        return Err(peer.protocol(format!("a packet of {} bytes", size)));
    }
    let body = peer.exact(size as usize)?;
    let padding = usize::from(body[0]);
    if padding + 2 > body.len() {
        return Err(peer.protocol(format!("{} bytes of padding in a packet of {} bytes", padding, size)));
    }
    Ok(body[1..body.len() - padding].to_vec())
}

fn disconnected(payload: &[u8]) -> Error {
    let mut rest = Reader(payload.get(5..).unwrap_or_default());
    let text = rest.string().unwrap_or_default();
    let reason = payload.get(4).copied().unwrap_or_default();
    Error::Refused(format!("the server disconnects: {} (reason {})", shown(text), reason))
}

/// Reads values.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        if n > self.0.len() {
            return None;
        }
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        Some(taken)
    }

    pub fn string(&mut self) -> Option<&'a [u8]> {
        let n = self.take(4)?.iter().fold(0, |v: usize, b| v << 8 | usize::from(*b));
        self.take(n)
    }

    /// Returns the names of a list.
    pub fn names(&mut self) -> Option<Vec<String>> {
        let list = String::from_utf8_lossy(self.string()?).into_owned();
        Some(list.split(',').map(str::to_owned).collect())
    }
}
