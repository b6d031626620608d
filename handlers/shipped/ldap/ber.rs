//! The part of BER (X.690) that LDAP needs.

use common::peer::{Peer, Result, MAX_MESSAGE};

pub use common::ber::{element, Reader, INTEGER, OCTETS, SEQUENCE};

pub const ENUMERATED: u8 = 0x0a;

pub fn text(text: &str) -> Vec<u8> {
    element(OCTETS, text.as_bytes())
}

/// Returns an integer or an enumerated value from 0 to 127.
pub fn small(tag: u8, value: u8) -> Vec<u8> {
    element(tag, &[value & 0x7f])
}

/// Reads an element of a tag from the peer, and returns its content.
pub fn read(peer: &mut Peer, tag: u8) -> Result<Vec<u8>> {
    let head = peer.exact(2)?;
    if head[0] != tag {
        return Err(peer.unexpected(&head));
    }
    let mut size = usize::from(head[1]);
    if size > 0x7f {
        let digits = size & 0x7f;
        if !(1..=4).contains(&digits) {
            return Err(peer.protocol("a malformed length"));
        }
        size = peer.exact(digits)?.iter().fold(0, |n, b| n << 8 | usize::from(*b));
    }
    if size > MAX_MESSAGE {
        return Err(peer.protocol(format!("a message of {} bytes", size)));
    }
    peer.exact(size)
}
