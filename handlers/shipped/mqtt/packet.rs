//! The packets of MQTT 3.1.1.

use common::peer::{Peer, Result};
use std::convert::TryFrom;

/// The first bytes of packets. The low bits of a PUBLISH may differ.
pub const CONNECT: u8 = 0x10;
pub const CONNACK: u8 = 0x20;
pub const PUBLISH: u8 = 0x30;
pub const SUBSCRIBE: u8 = 0x82;
pub const SUBACK: u8 = 0x90;
pub const PINGREQ: u8 = 0xc0;
pub const PINGRESP: u8 = 0xd0;
pub const DISCONNECT: u8 = 0xe0;

/// A packet that the broker sent.
pub struct Packet {
    pub kind: u8,
    flags: u8,
    pub body: Vec<u8>,
}

impl Packet {
    /// Returns the topic and the payload of a PUBLISH.
    pub fn message(&self) -> Option<(&[u8], &[u8])> {
        let size = usize::from(u16::from_be_bytes(<[u8; 2]>::try_from(self.body.get(..2)?).ok()?));
        let topic = self.body.get(2..2 + size)?;
        let number = if self.flags & 0x06 == 0 { 0 } else { 2 }; // with a quality of service
        Some((topic, self.body.get(2 + size + number..)?))
    }
}

pub fn send(peer: &mut Peer, first: u8, body: &[u8]) -> Result<()> {
    let mut data = vec![first];
    let mut left = body.len();
    loop {
        let more = if left > 127 { 0x80 } else { 0 };
        data.push((left % 128) as u8 | more);
        left /= 128;
        if left == 0 {
            break;
        }
    }
    data.extend_from_slice(body);
    peer.send(&data)
}

/// Reads a packet, which must be of one of some kinds.
pub fn receive(peer: &mut Peer, kinds: &[u8]) -> Result<Packet> {
    let first = peer.exact(1)?[0];
    let (kind, flags) = (first & 0xf0, first & 0x0f);
    if !kinds.contains(&kind) || (kind != PUBLISH && flags != 0) {
        return Err(match kinds {
            [CONNACK] => peer.unexpected(&[first]),
            _ => peer.protocol(format!("a packet of kind {}, want {}", kind >> 4, kinds[0] >> 4)),
        });
    }
    let mut size = 0;
    for i in 0.. {
        let digit = peer.exact(1)?[0];
        size |= usize::from(digit & 0x7f) << (7 * i);
        if digit & 0x80 == 0 {
            break;
        }
        if i == 3 {
            return Err(peer.protocol("a length of more than four bytes"));
        }
    }
    Ok(Packet { kind, flags, body: peer.exact(size)? })
}

/// Returns a string after its length.
pub fn text(text: &str) -> Vec<u8> {
    let size = text.len().min(usize::from(u16::MAX));
    [&(size as u16).to_be_bytes(), &text.as_bytes()[..size]].concat()
}

/// Reports whether a topic matches a filter, in which + is a level and # all further ones.
pub fn matches(filter: &str, topic: &[u8]) -> bool {
    let topic = String::from_utf8_lossy(topic);
    let mut levels = topic.split('/');
    for part in filter.split('/') {
        match (part, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (part, Some(level)) if part == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}
