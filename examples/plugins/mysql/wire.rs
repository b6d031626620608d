//! The part of version 10 of the client protocol of MySQL that a few queries need.

use prober::net::Conn;
use std::fmt;
use std::io::{self, Read, Write};

/// Why the server did not answer.
pub enum Error {
    Io(io::Error),
    /// The server returned an error.
    Server { code: u16, text: String },
    Protocol(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => f.write_str("the server hung up"),
            Error::Io(e) => e.fmt(f),
            Error::Server { code, text } => write!(f, "{} ({})", text, code),
            Error::Protocol(text) => write!(f, "no MySQL: {}", text),
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::Io(e)
    }
}

fn broken(what: &str) -> Error {
    Error::Protocol(what.into())
}

/// The capability flags that are used here.
pub const CONNECT_WITH_DB: u32 = 1 << 3;
pub const PROTOCOL_41: u32 = 1 << 9;
pub const SSL: u32 = 1 << 11;
pub const SECURE_CONNECTION: u32 = 1 << 15;
pub const PLUGIN_AUTH: u32 = 1 << 19;

const MAX_PACKET: usize = 64 << 10;
const MAX_COLUMNS: u64 = 256;
const MAX_ROWS: usize = 64;
const NULL: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;

/// The greeting of a server.
pub struct Greeting {
    pub version: String,
    pub capabilities: u32,
    pub salt: Vec<u8>,
    /// The default login method; "" for an old server.
    pub method: String,
}

impl Greeting {
    fn parse(body: &[u8]) -> Option<Greeting> {
        let mut r = Reader(body.get(1..)?);
        let version = r.until_zero()?.into_owned();
        r.take(4)?; // the connection's number
        let mut salt = r.take(8)?.to_vec();
        r.take(1)?;
        let mut g = Greeting { version, capabilities: r.number(2)? as u32, salt: Vec::new(), method: String::new() };
        if !r.0.is_empty() {
            r.take(3)?; // character set and status
            g.capabilities |= (r.number(2)? as u32) << 16;
            let size = usize::from(r.take(1)?[0]);
            r.take(10)?;
            salt.extend_from_slice(r.take(size.max(21) - 8)?);
            g.method = r.until_zero().map_or(String::new(), |m| m.into_owned());
        }
        salt.truncate(20);
        g.salt = salt;
        Some(g)
    }
}

pub struct Session {
    conn: Conn,
    next: u8, // number of the next packet
    pub greeting: Greeting,
}

impl Session {
    /// Reads the server's greeting.
    pub fn new(conn: Conn) -> Result<Session, Error> {
        let greeting = Greeting { version: String::new(), capabilities: 0, salt: Vec::new(), method: String::new() };
        let mut s = Session { conn, next: 0, greeting };
        let body = s.receive()?;
        if body[0] != 10 {
            return Err(Error::Protocol(format!("version {} of the protocol", body[0])));
        }
        s.greeting = Greeting::parse(&body).ok_or_else(|| broken("a broken greeting"))?;
        Ok(s)
    }

    pub fn offers(&self, capabilities: u32) -> bool {
        self.greeting.capabilities & capabilities == capabilities
    }

    /// Starts TLS; hello is the start of the login.
    pub fn start_tls(&mut self, hello: &[u8], options: &str) -> Result<(), Error> {
        self.send(hello)?;
        Ok(self.conn.start_tls(options)?)
    }

    pub fn send(&mut self, body: &[u8]) -> Result<(), Error> {
        let mut packet = (body.len() as u32).to_le_bytes();
        packet[3] = self.next;
        self.next = self.next.wrapping_add(1);
        Ok(self.conn.write_all(&[&packet, body].concat())?)
    }

    /// Returns the next packet, which is not empty. An error packet becomes an error.
    pub fn receive(&mut self) -> Result<Vec<u8>, Error> {
        let mut head = [0; 4];
        self.conn.read_exact(&mut head)?;
        let size = Reader(&head).number(3).unwrap_or_default() as usize;
        if !(1..=MAX_PACKET).contains(&size) {
            return Err(Error::Protocol(format!("it says {:?}", String::from_utf8_lossy(&head))));
        }
        let mut body = vec![0; size];
        self.conn.read_exact(&mut body)?;
        if body[0] == ERR {
            return Err(told(&body)); // one out of turn too
        }
        if head[3] != self.next {
            return Err(Error::Protocol(format!("packet {} where {} should be", head[3], self.next)));
        }
        self.next = self.next.wrapping_add(1);
        Ok(body)
    }

    fn command(&mut self, command: u8, text: &str) -> Result<(), Error> {
        self.next = 0;
        self.send(&[&[command], text.as_bytes()].concat())
    }

    pub fn ping(&mut self) -> Result<(), Error> {
        self.command(0x0e, "")?;
        match self.receive()?[0] {
            0 => Ok(()),
            other => Err(Error::Protocol(format!("a ping is answered with {:#04x}", other))),
        }
    }

    pub fn query(&mut self, sql: &str) -> Result<Table, Error> {
        self.command(0x03, sql)?;
        let head = self.receive()?;
        let count = Reader(&head).length().filter(|n| *n <= MAX_COLUMNS).ok_or_else(|| broken("a broken answer"))?;
        let mut table = Table { columns: Vec::new(), rows: Vec::new() };
        for _ in 0..count {
            let column = column(&self.receive()?).ok_or_else(|| broken("a broken column"))?;
            table.columns.push(column);
        }
        if count > 0 && !is_eof(&self.receive()?) {
            return Err(broken("columns without an end"));
        }
        while count > 0 {
            let body = self.receive()?;
            if is_eof(&body) {
                break;
            }
            if table.rows.len() == MAX_ROWS {
                return Err(broken("too many rows"));
            }
            table.rows.push(row(&body, count).ok_or_else(|| broken("a broken row"))?);
        }
        Ok(table)
    }

    pub fn end(mut self) -> Result<(), Error> {
        self.command(0x01, "")
    }
}

/// The answer to a query.
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the value of a column in the first row; None if it is NULL or does not exist.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.at(self.columns.iter().position(|c| c.eq_ignore_ascii_case(name))?)
    }

    /// Returns the value at an index of the first row.
    pub fn at(&self, column: usize) -> Option<&str> {
        self.rows.first()?.get(column)?.as_deref()
    }
}

fn is_eof(body: &[u8]) -> bool {
    body[0] == EOF && body.len() < 9
}

/// Returns the name of a column: the fifth string of its definition.
fn column(body: &[u8]) -> Option<String> {
    let mut r = Reader(body);
    (0..4).try_for_each(|_| r.text().map(|_| ()))?;
    r.text()
}

fn row(body: &[u8], count: u64) -> Option<Vec<Option<String>>> {
    let mut r = Reader(body);
    (0..count).map(|_| r.value()).collect()
}

/// Returns the message of an error packet, without its SQLSTATE.
fn told(body: &[u8]) -> Error {
    let mut r = Reader(&body[1..]);
    let code = match r.number(2) {
        Some(code) => code as u16,
        None => return broken("a broken error"),
    };
    let text = match r.0.first() {
        Some(b'#') if r.0.len() >= 6 => &r.0[6..],
        _ => r.0,
    };
    Error::Server { code, text: String::from_utf8_lossy(text).into_owned() }
}

/// The rest of a packet.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.0.get(..n)?;
        self.0 = &self.0[n..];
        Some(taken)
    }

    /// Reads a number of n bytes.
    fn number(&mut self, n: usize) -> Option<u64> {
        Some(self.take(n)?.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b)))
    }

    /// Reads a length-encoded number.
    fn length(&mut self) -> Option<u64> {
        match self.take(1)?[0] {
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            n if n < NULL => Some(n.into()),
            _ => None,
        }
    }

    /// Reads a string that ends with a zero byte or with the packet.
    pub fn until_zero(&mut self) -> Option<std::borrow::Cow<'a, str>> {
        let n = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(self.take(n)?);
        self.take(self.0.len().min(1))?;
        Some(text)
    }

    /// Reads a string after its length.
    fn text(&mut self) -> Option<String> {
        let n = usize::try_from(self.length()?).ok()?;
        Some(String::from_utf8_lossy(self.take(n)?).into_owned())
    }

    /// Reads a string or NULL.
    fn value(&mut self) -> Option<Option<String>> {
        if self.0.first() == Some(&NULL) {
            return self.take(1).map(|_| None);
        }
        self.text().map(Some)
    }
}
