//! A conversation with a server, in messages of bytes or in lines. What the server sends is bounded.
//! Read converse first.

use crate::config::{tls_options, Config};
use crate::{check_latency, shorten, Findings};
use prober::net::{self, Conn};
use prober::{json, Request};
use std::fmt;
use std::io::{self, Read, Write};
use std::time::Instant;

/// The most bytes of a message.
pub const MAX_MESSAGE: usize = 256 << 10;

/// The most bytes of a line.
pub const MAX_LINE: usize = 8 << 10;

/// The most characters of a text of the server in a message.
const MAX_SHOWN: usize = 200;

/// Why a conversation failed.
#[derive(Debug)]
pub enum Error {
    Io(io::Error),
    /// The server refused, or its answer is not the wanted one.
    Refused(String),
    /// The server does not follow the protocol.
    Protocol(String),
    /// TLS cannot be made, for a reason that the host does not know.
    Tls(String),
}

pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => f.write_str("the server closed the connection"),
            Error::Io(e) => e.fmt(f),
            Error::Refused(text) | Error::Protocol(text) | Error::Tls(text) => f.write_str(text),
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::Io(e)
    }
}

impl Error {
    /// Returns the error with what failed before its text.
    pub fn during(self, what: &str) -> Error {
        let text = format!("{}: {}", what, self);
        match self {
            Error::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => Error::Io(io::Error::new(io::ErrorKind::Other, text)),
            Error::Io(e) => Error::Io(io::Error::new(e.kind(), text)),
            Error::Refused(_) => Error::Refused(text),
            Error::Protocol(_) => Error::Protocol(text),
            Error::Tls(_) => Error::Tls(text),
        }
    }

    fn add_to(self, findings: &mut Findings) {
        match &self {
            Error::Io(_) => findings.fail(self.to_string()),
            Error::Refused(_) => findings.fail_for("body", self.to_string()),
            Error::Protocol(_) => findings.fail_for("protocol", self.to_string()),
            Error::Tls(_) => findings.fail_for("tls", self.to_string()),
        }
    }
}

/// A protocol.
pub struct Protocol {
    /// The name, for messages.
    pub name: &'static str,
    /// Whether the field tls makes TLS before anything else.
    pub tls_first: bool,
}

/// A server in a conversation.
pub struct Peer<'a> {
    pub config: &'a Config<'a>,
    pub findings: Findings,
    name: &'static str,
    conn: Conn,
    buf: Vec<u8>, // read, and not yet returned
}

/// Connects to the target, calls talk, and checks certificates and latency. talk returns the message of a
/// Success.
pub fn converse(protocol: &Protocol, request: &Request, talk: impl FnOnce(&mut Peer) -> Result<String>) -> prober::Result {
    let config = Config::of(request);
    let mut findings = Findings::default();
    let start = Instant::now();
    let conn = match net::dial_target() {
        Ok(conn) => conn,
        Err(e) => {
            findings.fail(e.to_string());
            return Ok(findings.outcome(String::new()));
        }
    };
    findings.metric("connect_seconds", "s", start.elapsed().as_secs_f64());
    let mut peer = Peer { config: &config, findings, name: protocol.name, conn, buf: Vec::new() };
    let secured = if protocol.tls_first && config.flag("tls") { peer.start_tls() } else { Ok(()) };
    let said = secured.and_then(|_| talk(&mut peer));
    let took = start.elapsed();
    peer.check_certificates()?;
    let mut findings = peer.findings;
    let success = match said {
        Ok(text) => {
            check_latency(&mut findings, &config, took)?;
            text
        }
        Err(e) => {
            e.add_to(&mut findings);
            String::new()
        }
    };
    Ok(findings.outcome(success))
}

impl Peer<'_> {
    /// Sets the message of an attempt whose time ends before the server has answered.
    pub fn awaits(&self, what: &str) {
        prober::progress(&format!("no answer to {}", what));
    }

    pub fn send(&mut self, data: &[u8]) -> Result<()> {
        Ok(self.conn.write_all(data)?)
    }

    /// Starts TLS. Data that was sent before could be another's.
    pub fn start_tls(&mut self) -> Result<()> {
        if !self.buf.is_empty() {
            return Err(Error::Tls("the server sent more than its answer before TLS".into()));
        }
        prober::progress("the TLS handshake did not end");
        Ok(self.conn.start_tls(&tls_options(self.config))?)
    }

    /// Returns the next n bytes, at most MAX_MESSAGE. Memory grows with what comes, not with n.
    pub fn exact(&mut self, n: usize) -> Result<Vec<u8>> {
        if n > MAX_MESSAGE {
            return Err(self.protocol(format!("a message of {} bytes", n)));
        }
        while self.buf.len() < n {
            self.more()?;
        }
        Ok(self.buf.drain(..n).collect())
    }

    /// Returns the next line without its end.
    pub fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.buf.iter().take(MAX_LINE).position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buf.drain(..=end).collect();
                let line = line.strip_suffix(b"\r\n").unwrap_or(&line[..end]);
                return Ok(String::from_utf8_lossy(line).into_owned());
            }
            if self.buf.len() >= MAX_LINE {
                return Err(self.protocol(format!("a line of more than {} bytes", MAX_LINE)));
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> Result<()> {
        let mut chunk = [0; 4096];
        match self.conn.read(&mut chunk)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            n => {
                self.buf.extend_from_slice(&chunk[..n]);
                Ok(())
            }
        }
    }

    /// Returns the error of a server that does not follow the protocol.
    pub fn protocol(&self, why: impl fmt::Display) -> Error {
        Error::Protocol(format!("not {}: {}", self.name, why))
    }

    fn check_certificates(&mut self) -> prober::Result<()> {
        let info = self.conn.info().unwrap_or_default();
        if let Some(tls) = json::lookup(&info, "tls") {
            crate::tls::metrics(&mut self.findings, tls);
            crate::tls::check_age(&mut self.findings, self.config, tls)?;
        }
        Ok(())
    }
}

/// Returns what a server sent, for a message.
pub fn shown(data: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(data).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shorten(text.trim(), MAX_SHOWN)
}
