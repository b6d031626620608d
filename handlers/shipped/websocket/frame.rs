//! The frames of a WebSocket, RFC 6455 section 5.

use common::config::Budget;
use common::conn;
use prober::net::Conn;
use std::io::Write;

/// The most bytes of a message.
pub const MAX_MESSAGE: usize = 1 << 20;

const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
const CLOSE: u8 = 8;
pub const PING: u8 = 9;
const PONG: u8 = 10;

/// What the server has sent.
pub enum Event {
    /// A message with all of its fragments.
    Message(Vec<u8>),
    Pong(Vec<u8>),
    /// A close frame: its code, 1005 without one, and its reason.
    Close(u16, String),
}

/// Why a connection cannot go on.
pub enum Broken {
    /// The server broke the protocol.
    Protocol(String),
    /// The connection ended without a close frame.
    End,
    Io(std::io::Error),
}

impl From<std::io::Error> for Broken {
    fn from(e: std::io::Error) -> Broken {
        Broken::Io(e)
    }
}

fn protocol<T>(why: impl Into<String>) -> Result<T, Broken> {
    Err(Broken::Protocol(why.into()))
}

/// A connection to a server, which has agreed to the protocol.
pub struct Socket {
    pub conn: Conn,
    pub budget: Budget,
    pub buf: Vec<u8>, // read, and not yet part of a frame
    start: usize,     // of what is left in buf
    partial: Option<(u8, Vec<u8>)>, // the type and the fragments of a message
    closing: bool,    // whether a close frame was sent
}

struct Frame {
    last: bool,
    kind: u8,
    payload: Vec<u8>,
}

impl Socket {
    /// Returns a socket. buf has what came after the response to the handshake.
    pub fn new(conn: Conn, budget: Budget, buf: Vec<u8>) -> Socket {
        Socket { conn, budget, buf, start: 0, partial: None, closing: false }
    }

    /// Sends a frame. The payload is masked.
    pub fn send(&mut self, kind: u8, payload: &[u8]) -> std::io::Result<()> {
        let mut mask = [0; 4];
        prober::random(&mut mask)?;
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            n if n < 126 => frame.push(0x80 | n as u8),
            n if n < 1 << 16 => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(n as u16).to_be_bytes());
            }
            n => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(n as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().enumerate().map(|(i, b)| b ^ mask[i % 4]));
        self.conn.set_timeout(self.budget.left());
        self.conn.write_all(&frame)
    }

    /// Sends a close frame, once.
    pub fn close(&mut self, code: u16) -> std::io::Result<()> {
        if self.closing {
            return Ok(());
        }
        self.closing = true;
        self.send(CLOSE, &code.to_be_bytes())
    }

    /// Waits for the next event. It answers pings and a close frame.
    pub fn next(&mut self) -> Result<Event, Broken> {
        loop {
            let frame = self.frame()?;
            match frame.kind {
                PING => self.send(PONG, &frame.payload)?,
                PONG => return Ok(Event::Pong(frame.payload)),
                CLOSE => return self.closed(&frame.payload),
                _ => {
                    if let Some(event) = self.data(frame)? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    fn closed(&mut self, payload: &[u8]) -> Result<Event, Broken> {
        let (code, reason) = match payload {
            [] => (1005, ""),
            [high, low, reason @ ..] => match std::str::from_utf8(reason) {
                Ok(reason) => (u16::from_be_bytes([*high, *low]), reason),
                Err(_) => return protocol("a close frame whose reason is not UTF-8"),
            },
            _ => return protocol("a close frame of one byte"),
        };
        let _ = self.close(1000); // the server may have gone
        Ok(Event::Close(code, reason.into()))
    }

    /// Adds a frame to its message, and returns that if it is complete.
    fn data(&mut self, frame: Frame) -> Result<Option<Event>, Broken> {
        let (kind, mut message) = match (self.partial.take(), frame.kind) {
            (Some(partial), CONTINUATION) => partial,
            (Some(_), _) => return protocol("a message within the fragments of another one"),
            (None, CONTINUATION) => return protocol("a fragment without the start of its message"),
            (None, kind) => (kind, Vec::new()),
        };
        if message.len() + frame.payload.len() > MAX_MESSAGE {
            return protocol(format!("a message of more than {} bytes", MAX_MESSAGE));
        }
        message.extend_from_slice(&frame.payload);
        if !frame.last {
            self.partial = Some((kind, message));
            return Ok(None);
        }
        if kind == TEXT && std::str::from_utf8(&message).is_err() {
            return protocol("a text that is not UTF-8");
        }
        Ok(Some(Event::Message(message)))
    }

    /// Reads a frame.
    fn frame(&mut self) -> Result<Frame, Broken> {
        let head = self.take(2)?;
        let (flags, kind, size) = (head[0] & 0x70, head[0] & 0x0f, head[1] & 0x7f);
        let last = head[0] & 0x80 != 0;
        if flags != 0 {
            return protocol("a frame of an extension that was not agreed");
        }
        if head[1] & 0x80 != 0 {
            return protocol("a masked frame");
        }
        if !matches!(kind, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
            return protocol(format!("a frame of the unknown type {}", kind));
        }
        if kind >= CLOSE && (size > 125 || !last) {
            return protocol("a control frame that is fragmented or longer than 125 bytes");
        }
        let extended = match size {
            126 => self.take(2)?,
            127 => self.take(8)?,
            n => vec![n],
        };
        let size = extended.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        if size > MAX_MESSAGE as u64 {
            return protocol(format!("a frame of {} bytes, more than {}", size, MAX_MESSAGE));
        }
        Ok(Frame { last, kind, payload: self.take(size as usize)? })
    }

    /// Returns the next n bytes.
    fn take(&mut self, n: usize) -> Result<Vec<u8>, Broken> {
        while self.buf.len() - self.start < n {
            if self.start > 0 {
                self.buf.drain(..self.start);
                self.start = 0;
            }
            if !conn::read_more(&mut self.conn, &self.budget, &mut self.buf)? {
                return Err(Broken::End);
            }
        }
        let taken = self.buf[self.start..self.start + n].to_vec();
        self.start += n;
        Ok(taken)
    }
}
