//! Frames, methods and tables of AMQP 0-9-1.

use common::peer::{shown, Error, Peer, Result};
use std::convert::TryFrom;

pub const HEADER: &[u8; 8] = b"AMQP\0\0\x09\x01";

const METHOD: u8 = 1;
const HEARTBEAT: u8 = 8;
const END: u8 = 0xce;

/// Methods: a class and a number.
pub type Method = (u16, u16);
pub const START: Method = (10, 10);
pub const START_OK: Method = (10, 11);
pub const TUNE: Method = (10, 30);
pub const TUNE_OK: Method = (10, 31);
pub const OPEN: Method = (10, 40);
pub const OPEN_OK: Method = (10, 41);
pub const CLOSE: Method = (10, 50);
pub const CLOSE_OK: Method = (10, 51);
const BLOCKED: Method = (10, 60);
const UNBLOCKED: Method = (10, 61);
pub const CHANNEL_OPEN: Method = (20, 10);
pub const CHANNEL_OPEN_OK: Method = (20, 11);
const CHANNEL_CLOSE: Method = (20, 40);
pub const CHANNEL_CLOSE_OK: Method = (20, 41);
pub const QUEUE_DECLARE: Method = (50, 10);
pub const QUEUE_DECLARE_OK: Method = (50, 11);

/// What the server sent in place of the wanted method, or the arguments of that.
pub enum Reply {
    Arguments(Vec<u8>),
    /// The channel is closed, for this reason.
    ChannelClosed(String),
}

pub fn send(peer: &mut Peer, channel: u16, method: Method, arguments: &[u8]) -> Result<()> {
    let mut frame = vec![METHOD];
    frame.extend_from_slice(&channel.to_be_bytes());
    frame.extend_from_slice(&(arguments.len() as u32 + 4).to_be_bytes());
    frame.extend_from_slice(&method.0.to_be_bytes());
    frame.extend_from_slice(&method.1.to_be_bytes());
    frame.extend_from_slice(arguments);
    frame.push(END);
    peer.send(&frame)
}

/// Reads until a method comes. The close of the connection is an error, with its text.
pub fn receive(peer: &mut Peer, channel: u16, wanted: Method) -> Result<Reply> {
    loop {
        let (of, method, arguments) = match next(peer, wanted)? {
            Some(frame) => frame,
            None => continue,
        };
        match method {
            CLOSE => {
                let _ = send(peer, 0, CLOSE_OK, &[]);
                return Err(Error::Refused(format!("the server closes the connection: {}", closing(peer, &arguments)?)));
            }
            CHANNEL_CLOSE if of == channel && channel > 0 => return Ok(Reply::ChannelClosed(closing(peer, &arguments)?)),
            BLOCKED | UNBLOCKED => {}
            _ if of != channel => return Err(peer.protocol(format!("a method of the channel {}, want {}", of, channel))),
            _ if method == wanted => return Ok(Reply::Arguments(arguments)),
            _ => return Err(peer.protocol(format!("the method {}.{}, want {}.{}", method.0, method.1, wanted.0, wanted.1))),
        }
    }
}

/// Reads a frame, and returns its channel, method and arguments; None for a heartbeat.
fn next(peer: &mut Peer, wanted: Method) -> Result<Option<(u16, Method, Vec<u8>)>> {
    let head = peer.exact(7)?;
    if wanted == START && head.starts_with(b"AMQP") {
        let revision = peer.exact(1)?[0];
        let [id, major, minor] = [head[4], head[5], head[6]];
        return Err(Error::Refused(format!("the server does not speak AMQP 0-9-1: it answers AMQP {} {} {} {}", id, major, minor, revision)));
    }
    let (channel, size) = (u16::from_be_bytes([head[1], head[2]]), u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize);
    match head[0] {
        METHOD if size >= 4 => {}
        HEARTBEAT if size == 0 && wanted != START => {}
        _ if wanted == START => return Err(peer.unexpected(&head)),
        kind => return Err(peer.protocol(format!("a frame of kind {} with {} bytes", kind, size))),
    }
    let body = peer.exact(size)?;
    if peer.exact(1)?[0] != END {
        return Err(peer.protocol("a frame without its end"));
    }
    Ok(match body.as_slice() {
        [a, b, c, d, arguments @ ..] => Some((channel, (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])), arguments.to_vec())),
        _ => None,
    })
}

/// Returns the reason of a close, such as "NOT_FOUND - no queue 'orders' in vhost '/' (404)".
fn closing(peer: &Peer, arguments: &[u8]) -> Result<String> {
    let mut fields = Fields(arguments);
    match (fields.u16(), fields.short()) {
        (Some(code), Some(text)) => Ok(format!("{} ({})", shown(text), code)),
        _ => Err(peer.protocol("a malformed close")),
    }
}

/// Arguments that are read from their start.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.0.get(..n)?;
        self.0 = &self.0[n..];
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(<[u8; 2]>::try_from(self.take(2)?).ok()?))
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(<[u8; 4]>::try_from(self.take(4)?).ok()?))
    }

    /// Takes a short string.
    pub fn short(&mut self) -> Option<&'a [u8]> {
        let size = self.u8()?;
        self.take(size.into())
    }

    /// Takes a long string or a table.
    pub fn long(&mut self) -> Option<&'a [u8]> {
        let size = self.u32()?;
        self.take(size as usize)
    }
}

/// Returns the values of the long strings of a table with some names; "" for one that the table does not have.
/// None means that the table is malformed.
pub fn texts<const N: usize>(table: &[u8], names: [&str; N]) -> Option<[String; N]> {
    let mut found = names.map(|_| String::new());
    let mut fields = Fields(table);
    while !fields.0.is_empty() {
        let name = fields.short()?;
        let size = match fields.u8()? {
            b'S' => {
                let value = fields.long()?;
                if let Some(i) = names.iter().position(|n| n.as_bytes() == name) {
                    found[i] = shown(value);
                }
                0
            }
            b'A' | b'F' | b'x' => {
                fields.long()?;
                0
            }
            b't' | b'b' | b'B' => 1,
            b's' | b'u' | b'U' => 2,
            b'i' | b'I' | b'f' => 4,
            b'D' => 5,
            b'l' | b'L' | b'd' | b'T' => 8,
            b'V' => 0,
            _ => return None,
        };
        fields.take(size)?;
    }
    Some(found)
}

pub fn put_short(to: &mut Vec<u8>, text: &str) {
    let size = text.len().min(u8::MAX.into());
    to.push(size as u8);
    to.extend_from_slice(&text.as_bytes()[..size]);
}

pub fn put_long(to: &mut Vec<u8>, data: &[u8]) {
    to.extend_from_slice(&(data.len() as u32).to_be_bytes());
    to.extend_from_slice(data);
}
