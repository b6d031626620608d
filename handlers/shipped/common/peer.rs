//! A conversation with a server, in messages of bytes or in lines. What the server sends is bounded.
//! Read converse first.

use crate::config::{tls_options, Config};
use crate::{check_latency, shorten, tls, Findings};
use prober::net::{self, Conn};
use prober::{json, Request};
use std::fmt;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// The most bytes of a message.
pub const MAX_MESSAGE: usize = 256 << 10;

/// The most bytes of a line.
pub const MAX_LINE: usize = 8 << 10;

/// The most characters of a text of the server in a message.
const MAX_SHOWN: usize = 200;

/// The most bytes that are shown of something unexpected.
const MAX_START: usize = 80;

/// The start of the record with which a server of TLS answers what is not TLS.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

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
    /// Returns the error with what failed before its text. Errors of I/O have what the peer awaits instead.
    pub fn during(self, what: &str) -> Error {
        let text = format!("{}: {}", what, self);
        match self {
            Error::Io(_) => self,
            Error::Refused(_) => Error::Refused(text),
            Error::Protocol(_) => Error::Protocol(text),
            Error::Tls(_) => Error::Tls(text),
        }
    }

    pub fn add_to(self, findings: &mut Findings) {
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
    tls_first: bool,
    buf: Vec<u8>, // read, and not yet returned
    awaited: Awaited,
}

/// What the server must send next.
#[derive(Default)]
struct Awaited {
    /// Begins errors of I/O; may be "".
    step: String,
    /// The name of what comes, such as "answer to PING"; "" if another message is shown after the deadline.
    noun: String,
    /// How many bytes have come.
    received: usize,
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
    let mut peer = Peer::new(&config, findings, protocol.name, protocol.tls_first, conn);
    let said = peer.begin().and_then(|_| talk(&mut peer));
    let took = start.elapsed();
    peer.check_certificates()?;
    conclude(peer.findings, &config, said, took)
}

/// Returns the outcome of a check that took some time. said is the message of a Success.
pub(crate) fn conclude(mut findings: Findings, config: &Config, said: Result<String>, took: Duration) -> prober::Result {
    match said {
        Ok(text) => {
            check_latency(&mut findings, config, took)?;
            Ok(findings.outcome(text))
        }
        Err(e) => {
            e.add_to(&mut findings);
            Ok(findings.outcome(String::new()))
        }
    }
}

impl<'a> Peer<'a> {
    /// Connects to another server of the same protocol, such as "tcp://kafka-2.internal:9092". The operator must
    /// have granted its address.
    pub fn dial(&self, url: &str) -> Result<Peer<'a>> {
        let mut peer = Peer::new(self.config, Findings::default(), self.name, self.tls_first, net::dial(url, None)?);
        peer.begin()?;
        Ok(peer)
    }

    fn new(config: &'a Config<'a>, findings: Findings, name: &'static str, tls_first: bool, conn: Conn) -> Peer<'a> {
        Peer { config, findings, name, conn, tls_first, buf: Vec::new(), awaited: Awaited::default() }
    }

    /// Makes TLS before anything else, if the field tls says so.
    fn begin(&mut self) -> Result<()> {
        match self.tls_first && self.config.flag("tls") {
            true => self.start_tls(),
            false => Ok(()),
        }
    }

    /// Sets the step whose answer comes next. It begins errors of I/O, and is part of the message of an attempt
    /// whose time ends before the server has answered.
    pub fn awaits(&mut self, step: &str) {
        self.set_awaited(step, format!("answer to {}", step));
    }

    pub fn awaits_greeting(&mut self) {
        self.set_awaited("the greeting", "greeting of the server".into());
    }

    /// Sets the message of an attempt whose time ends before something comes. It begins errors of I/O.
    pub fn awaits_or(&mut self, message: &str) {
        prober::progress(message);
        self.awaited = Awaited { step: message.into(), ..Awaited::default() };
    }

    fn set_awaited(&mut self, step: &str, noun: String) {
        prober::progress(&format!("no {}", noun));
        self.awaited = Awaited { step: step.into(), noun, received: 0 };
    }

    /// Returns an error of I/O with the step that it ended.
    fn failed(&self, e: io::Error) -> Error {
        match self.awaited.step.as_str() {
            "" => e.into(),
            step => io::Error::new(e.kind(), format!("{}: {}", step, e)).into(),
        }
    }

    pub fn send(&mut self, data: &[u8]) -> Result<()> {
        self.conn.write_all(data).map_err(|e| self.failed(e))
    }

    /// Starts TLS, before anything else or after a command.
    pub fn start_tls(&mut self) -> Result<()> {
        let options = tls_options(self.config);
        if self.tls_first && self.config.flag("tls") {
            return self.start_tls_with(&options);
        }
        self.before_tls()?;
        Ok(self.conn.start_tls(&options)?)
    }

    /// Starts TLS before anything else, with options of the host.
    pub fn start_tls_with(&mut self, options: &str) -> Result<()> {
        self.before_tls()?;
        Ok(tls::start(&mut self.conn, options)?)
    }

    fn before_tls(&mut self) -> Result<()> {
        if !self.buf.is_empty() {
            // It could be another's.
            return Err(Error::Tls("the server sent more than its answer before TLS".into()));
        }
        self.awaited = Awaited::default();
        prober::progress(""); // the host says more about a handshake
        Ok(())
    }

    /// Returns the next n bytes, at most MAX_MESSAGE. Memory grows with what comes, not with n.
    pub fn exact(&mut self, n: usize) -> Result<Vec<u8>> {
        if n > MAX_MESSAGE {
            return Err(self.protocol(format!("a message of {} bytes", n)));
        }
        while self.buf.len() < n {
            self.more("")?;
        }
        Ok(self.buf.drain(..n).collect())
    }

    /// Returns the next line without its end.
    pub fn line(&mut self) -> Result<String> {
        let mut seen = 0; // bytes of buf without an end of a line
        let mut excerpt = String::new();
        loop {
            let new = &self.buf[seen..self.buf.len().min(MAX_LINE)];
            if let Some(end) = new.iter().position(|b| *b == b'\n').map(|at| seen + at) {
                let line: Vec<u8> = self.buf.drain(..=end).collect();
                let line = line.strip_suffix(b"\r\n").unwrap_or(&line[..end]);
                return Ok(String::from_utf8_lossy(line).into_owned());
            }
            if self.buf.len() >= MAX_LINE {
                return Err(self.protocol(format!("a line of more than {} bytes", MAX_LINE)));
            }
            if seen < MAX_START && !self.buf.is_empty() {
                excerpt = format!(", {:?}", shown(start(&self.buf)));
            }
            seen = self.buf.len();
            self.more(&excerpt)?;
        }
    }

    /// Reads more. excerpt is the shown start of an answer; may be "".
    fn more(&mut self, excerpt: &str) -> Result<()> {
        let mut part = String::new();
        if self.awaited.received > 0 {
            part = format!("{} {}{}", self.awaited.received, if self.awaited.received == 1 { "byte" } else { "bytes" }, excerpt);
            if !self.awaited.noun.is_empty() {
                prober::progress(&format!("unfinished {}: {}", self.awaited.noun, part));
            }
        }
        let mut chunk = [0; 4096];
        match self.conn.read(&mut chunk).map_err(|e| self.failed(e))? {
            0 => {
                let after = if part.is_empty() { part } else { format!(" after {}", part) };
                Err(self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, format!("the server closed the connection{}", after))))
            }
            n => {
                self.awaited.received += n;
                self.buf.extend_from_slice(&chunk[..n]);
                Ok(())
            }
        }
    }

    /// Returns the error of a server that does not follow the protocol.
    pub fn protocol(&self, why: impl fmt::Display) -> Error {
        Error::Protocol(format!("not {}: {}", self.name, why))
    }

    /// Returns the error of a server that sent something else. start was read, and what came after it is shown too.
    pub fn unexpected(&self, start: &[u8]) -> Error {
        if start.starts_with(&TLS_ALERT) {
            return Error::Tls("the server answers with an alert of TLS: it may need the field tls".into());
        }
        let mut sent = [start, &self.buf].concat();
        sent.truncate(sent.iter().position(|b| *b == b'\n').unwrap_or(sent.len()).min(MAX_START));
        self.protocol(format!("it sent {:?}", shown(&sent)))
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

/// Returns the first MAX_START bytes, or a few less so that no character is cut in two.
fn start(data: &[u8]) -> &[u8] {
    let most = data.len().min(MAX_START);
    let end = (most.saturating_sub(3)..=most).rev().find(|at| data.get(*at).map_or(true, |b| b & 0xc0 != 0x80));
    &data[..end.unwrap_or(most)]
}

/// Returns what a server sent, for a message.
pub fn shown(data: &[u8]) -> String {
    let start = data.iter().position(|b| *b > b' ' && *b != 0x7f).unwrap_or(data.len());
    // A character that this cuts in two is not shown, because MAX_SHOWN whole ones are before it.
    let data = &data[start..data.len().min(start + 4 * (MAX_SHOWN + 1))];
    let text: String = String::from_utf8_lossy(data).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shorten(text.trim(), MAX_SHOWN)
}
