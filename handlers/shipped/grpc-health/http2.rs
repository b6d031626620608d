//! The part of HTTP/2 (RFC 9113) that calls one after another on one connection need. Read Client::call first.

use crate::hpack::{self, Decoder};
use common::peer::{shown, Error, Peer, Result};

// The types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

// The flags of frames.
const ACK: u8 = 1; // of SETTINGS and PING
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most bytes of a frame, the default of HTTP/2.
const MAX_FRAME: usize = 16 << 10;

/// The most bytes of the headers of an answer, compressed.
const MAX_HEADERS: usize = 64 << 10;

/// The most bytes of the body of an answer.
const MAX_BODY: usize = 256 << 10;

/// The bytes that a server may send on a stream, and in addition on the connection, before it waits.
const WINDOW: u32 = 1 << 20;

const ERRORS: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// An answer.
#[derive(Default)]
pub struct Response {
    fields: Vec<hpack::Field>, // trailers too
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the last value of a name, or "".
    pub fn field(&self, name: &str) -> String {
        let found = self.fields.iter().rev().find(|(n, _)| n == name.as_bytes());
        found.map_or(String::new(), |(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

/// A connection, and its current call.
pub struct Client {
    decoder: Decoder,
    stream: u32,   // of the current call; 0 before the first
    begun: bool,   // the server's first frame was SETTINGS
    response: Response,
    block: Option<Vec<u8>>, // of headers that are not complete
    block_of: u32,          // the stream of block
    ends: bool,             // the response ends with block
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Client {
    pub fn new() -> Client {
        Client { decoder: Decoder::new(), stream: 0, begun: false, response: Response::default(), block: None, block_of: 0, ends: false }
    }

    /// Sends a request, and reads to the end of its response.
    pub fn call(&mut self, peer: &mut Peer, headers: &[(&str, String)], body: &[u8]) -> Result<Response> {
        let mut out = Vec::new();
        if self.stream == 0 {
            out.extend_from_slice(PREFACE);
            let settings = [&[0, 2, 0, 0, 0, 0, 0, 4][..], &WINDOW.to_be_bytes()].concat(); // no push, and the window
            frame(&mut out, SETTINGS, 0, 0, &settings);
            frame(&mut out, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        }
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        let mut block = Vec::new();
        headers.iter().for_each(|(name, value)| hpack::encode(&mut block, name, value));
        let parts: Vec<&[u8]> = block.chunks(MAX_FRAME).collect();
        for (i, part) in parts.iter().enumerate() {
            let flags = if i + 1 == parts.len() { END_HEADERS } else { 0 };
            frame(&mut out, if i == 0 { HEADERS } else { CONTINUATION }, flags, self.stream, part);
        }
        frame(&mut out, DATA, END_STREAM, self.stream, body);
        peer.send(&out)?;
        loop {
            let frame = self.read(peer)?;
            if self.handle(peer, frame)? {
                return Ok(std::mem::take(&mut self.response));
            }
        }
    }

    fn read(&mut self, peer: &mut Peer) -> Result<Frame> {
        let head = peer.exact(9)?;
        let size = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if !self.begun && (head[3] != SETTINGS || head[0] != 0) {
            return Err(peer.unexpected(&head)); // another protocol begins with other bytes
        }
        self.begun = true;
        if size > MAX_FRAME {
            return Err(peer.protocol(format!("a frame of {} bytes", size)));
        }
        let stream = u32::from_be_bytes([head[5] & 127, head[6], head[7], head[8]]);
        Ok(Frame { kind: head[3], flags: head[4], stream, payload: peer.exact(size)? })
    }

    /// Handles a frame, and reports whether the response has ended.
    fn handle(&mut self, peer: &mut Peer, f: Frame) -> Result<bool> {
        if self.block.is_some() != (f.kind == CONTINUATION) || self.block.is_some() && f.stream != self.block_of {
            return Err(peer.protocol("a CONTINUATION frame is missing or unexpected"));
        }
        let own = f.stream == self.stream;
        match f.kind {
            SETTINGS | PING if f.flags & ACK == 0 => {
                let mut out = Vec::new();
                frame(&mut out, f.kind, ACK, 0, if f.kind == PING { &f.payload } else { &[] });
                let _ = peer.send(&out); // a server that closes the connection sends the reason first
            }
            GOAWAY => return self.goes_away(peer, &f.payload).map(|_| false),
            PUSH_PROMISE => return Err(peer.protocol("the server pushes, which it was told not to")),
            RST_STREAM if own && f.payload.len() == 4 => return Err(Error::Refused(format!("the server resets the call: {}", name_of(&f.payload)))),
            DATA if own => {
                let ends = f.flags & END_STREAM != 0;
                self.response.body.extend(unpadded(peer, &f)?);
                if self.response.body.len() > MAX_BODY {
                    return Err(peer.protocol(format!("the answer has more than {} bytes", MAX_BODY)));
                }
                return Ok(ends);
            }
            HEADERS | CONTINUATION => return self.headers(peer, f),
            _ => {}
        }
        Ok(false)
    }

    /// Takes a part of headers, or of trailers. Those of an earlier call change the table of the decoder, too.
    fn headers(&mut self, peer: &mut Peer, f: Frame) -> Result<bool> {
        let mut payload = &f.payload[..];
        if f.kind == HEADERS {
            payload = unpadded(peer, &f)?;
            if f.flags & PRIORITY != 0 {
                payload = &payload[payload.len().min(5)..];
            }
            (self.ends, self.block_of) = (f.flags & END_STREAM != 0, f.stream);
        }
        let mut block = self.block.take().unwrap_or_default();
        block.extend_from_slice(payload);
        if block.len() > MAX_HEADERS {
            return Err(peer.protocol(format!("the headers have more than {} bytes", MAX_HEADERS)));
        }
        if f.flags & END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(false);
        }
        let fields = self.decoder.decode(&block).map_err(|why| peer.protocol(format!("headers: {}", why)))?;
        if f.stream != self.stream {
            return Ok(false);
        }
        self.response.fields.extend(fields);
        let size: usize = self.response.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > 2 * MAX_HEADERS {
            return Err(peer.protocol("too many headers"));
        }
        Ok(self.ends)
    }

    /// Returns an error if the server will not answer the call.
    fn goes_away(&self, peer: &Peer, payload: &[u8]) -> Result<()> {
        if payload.len() < 8 {
            return Err(peer.protocol("a GOAWAY that is too short"));
        }
        let last = u32::from_be_bytes([payload[0] & 127, payload[1], payload[2], payload[3]]);
        if last >= self.stream {
            return Ok(());
        }
        let text = match shown(&payload[8..]) {
            text if text.is_empty() => text,
            text => format!(", {:?}", text),
        };
        Err(Error::Refused(format!("the server goes away: {}{}", name_of(&payload[4..8]), text)))
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Returns the content of a frame without its padding.
fn unpadded<'a>(peer: &Peer, f: &'a Frame) -> Result<&'a [u8]> {
    if f.flags & PADDED == 0 {
        return Ok(&f.payload);
    }
    match f.payload.split_first() {
        Some((n, rest)) if usize::from(*n) <= rest.len() => Ok(&rest[..rest.len() - usize::from(*n)]),
        _ => Err(peer.protocol("a frame with more padding than content")),
    }
}

/// Returns the name of an error code of four bytes.
fn name_of(code: &[u8]) -> String {
    let code = code.iter().fold(0, |n, b| n << 8 | usize::from(*b));
    ERRORS.get(code).map_or_else(|| format!("error {}", code), |name| name.to_string())
}
