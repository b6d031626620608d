//! The part of version 10 of the client protocol of MySQL that a login and a query need.

use common::peer::{shown, Error, Peer, Result, MAX_MESSAGE};

/// The capability flags that are used here.
pub const CONNECT_WITH_DB: u32 = 1 << 3;
pub const PROTOCOL_41: u32 = 1 << 9;
pub const SSL: u32 = 1 << 11;
pub const SECURE_CONNECTION: u32 = 1 << 15;
pub const PLUGIN_AUTH: u32 = 1 << 19;

const MAX_COLUMNS: u64 = 4096;
const NULL: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;

/// The greeting of a server.
#[derive(Default)]
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
        r.take(4)?; // the number of the connection
        let mut salt = r.take(8)?.to_vec();
        r.take(1)?;
        let mut g = Greeting { version, capabilities: r.number(2)? as u32, ..Greeting::default() };
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

pub struct Session<'a, 'b> {
    pub peer: &'a mut Peer<'b>,
    next: u8, // number of the next packet
    pub greeting: Greeting,
}

/// An error that the server returned.
pub struct ServerError {
    pub code: u16,
    pub text: String,
}

impl Session<'_, '_> {
    /// Reads the greeting of the server.
    pub fn new<'a, 'b>(peer: &'a mut Peer<'b>) -> Result<Session<'a, 'b>> {
        peer.awaits_greeting();
        let mut s = Session { peer, next: 0, greeting: Greeting::default() };
        let body = s.receive()?;
        if body[0] != 10 {
            return Err(s.peer.protocol(format!("version {} of the protocol", body[0])));
        }
        s.greeting = Greeting::parse(&body).ok_or_else(|| s.peer.protocol("a malformed greeting"))?;
        Ok(s)
    }

    pub fn offers(&self, capabilities: u32) -> bool {
        self.greeting.capabilities & capabilities == capabilities
    }

    /// Starts TLS; hello is the start of the login.
    pub fn start_tls(&mut self, hello: &[u8]) -> Result<()> {
        self.send(hello)?;
        self.peer.start_tls()
    }

    pub fn send(&mut self, body: &[u8]) -> Result<()> {
        let mut packet = (body.len() as u32).to_le_bytes();
        packet[3] = self.next;
        self.next = self.next.wrapping_add(1);
        self.peer.send(&[&packet, body].concat())
    }

    /// Returns the next packet, which is not empty. An error packet becomes an error.
    pub fn receive(&mut self) -> Result<Vec<u8>> {
        self.try_receive()?.map_err(|e| Error::Refused(format!("{} ({})", e.text, e.code)))
    }

    fn try_receive(&mut self) -> Result<std::result::Result<Vec<u8>, ServerError>> {
        let head = self.peer.exact(4)?;
        let size = Reader(&head).number(3).unwrap_or_default() as usize;
        if !(1..=MAX_MESSAGE).contains(&size) {
            return Err(self.peer.unexpected(&head));
        }
        let body = self.peer.exact(size)?;
        if body[0] == ERR {
            // One out of turn too.
            return error_of(&body).map(Err).ok_or_else(|| self.peer.protocol("a malformed error"));
        }
        if head[3] != self.next {
            return Err(self.peer.protocol(format!("packet {}, want {}", head[3], self.next)));
        }
        self.next = self.next.wrapping_add(1);
        Ok(Ok(body))
    }

    fn command(&mut self, command: u8, text: &str) -> Result<()> {
        self.next = 0;
        self.send(&[&[command], text.as_bytes()].concat())
    }

    pub fn ping(&mut self) -> Result<()> {
        self.peer.awaits("a ping");
        self.command(0x0e, "")?;
        match self.receive()?[0] {
            0 => Ok(()),
            other => Err(self.peer.protocol(format!("a ping is answered with {:#04x}", other))),
        }
    }

    /// Calls each with the first rows of the answer to a query, at most most. It returns how many rows the answer
    /// has, or the error of the server.
    pub fn query(&mut self, sql: &str, most: u64, mut each: impl FnMut(Row)) -> Result<std::result::Result<u64, ServerError>> {
        self.peer.awaits("the query");
        self.command(0x03, sql)?;
        let head = match self.try_receive()? {
            Ok(head) => head,
            Err(e) => return Ok(Err(e)),
        };
        let count = Reader(&head).length().filter(|n| *n <= MAX_COLUMNS).ok_or_else(|| self.peer.protocol("a malformed answer"))?;
        let (mut columns, mut rows) = (Vec::new(), 0);
        for _ in 0..count {
            columns.push(column(&self.receive()?).ok_or_else(|| self.peer.protocol("a malformed column"))?);
        }
        if count > 0 && !is_eof(&self.receive()?) {
            return Err(self.peer.protocol("columns without an end"));
        }
        while count > 0 {
            let body = self.receive()?;
            if is_eof(&body) {
                break;
            }
            if rows < most {
                let values = values(&body, count).ok_or_else(|| self.peer.protocol("a malformed row"))?;
                each(Row { columns: &columns, values });
            }
            rows += 1;
        }
        Ok(Ok(rows))
    }

    /// Ends the session. The server may have closed the connection already.
    pub fn end(mut self) {
        let _ = self.command(0x01, "");
    }
}

/// A row of the answer to a query.
pub struct Row<'a> {
    columns: &'a [String],
    /// None is NULL.
    pub values: Vec<Option<String>>,
}

impl Row<'_> {
    /// Returns the value of a column; None if it is NULL or does not exist.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(self.columns.iter().position(|c| c.eq_ignore_ascii_case(name))?)?.as_deref()
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

fn values(body: &[u8], count: u64) -> Option<Vec<Option<String>>> {
    let mut r = Reader(body);
    (0..count).map(|_| r.value()).collect()
}

/// Returns the error of an error packet, without its SQLSTATE.
fn error_of(body: &[u8]) -> Option<ServerError> {
    let mut r = Reader(&body[1..]);
    let code = r.number(2)? as u16;
    let text = match r.0.first() {
        Some(b'#') if r.0.len() >= 6 => &r.0[6..],
        _ => r.0,
    };
    Some(ServerError { code, text: shown(text) })
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
