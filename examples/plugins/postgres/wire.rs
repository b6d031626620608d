//! As much of PostgreSQL's protocol, version 3.0, as a question in clear text needs.

use prober::net::Conn;
use std::collections::HashMap;
use std::convert::TryFrom;
use std::fmt;
use std::io::{self, Read, Write};

/// What kept the server from answering.
pub enum Error {
    Io(io::Error),
    /// The server said it: severity, SQLSTATE and message.
    Server(String),
    Protocol(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => f.write_str("the server hung up"),
            Error::Io(e) => e.fmt(f),
            Error::Server(text) => f.write_str(text),
            Error::Protocol(text) => write!(f, "no PostgreSQL: {}", text),
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::Io(e)
    }
}

/// How a login ended.
pub enum Login {
    Ready,
    /// The server wants a method that is not spoken here, or a password that is not there.
    Wanted(&'static str),
}

pub struct Session {
    conn: Conn,
    parameters: HashMap<String, String>,
}

const VERSION: i32 = 3 << 16;
const MAX_MESSAGE: usize = 64 << 10;

impl Session {
    pub fn new(conn: Conn) -> Session {
        Session { conn, parameters: HashMap::new() }
    }

    /// A parameter that the server told at the login.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    pub fn log_in(&mut self, user: &str, database: &str, password: Option<&str>) -> Result<Login, Error> {
        let mut hello = VERSION.to_be_bytes().to_vec();
        for text in ["user", user, "database", database, "application_name", "prober", ""] {
            hello.extend_from_slice(text.as_bytes());
            hello.push(0);
        }
        self.send(None, &hello)?;
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'R' => match (number(&body), password) {
                    (Some(0), _) => {}
                    (Some(3), Some(password)) => self.send(Some(b'p'), &[password.as_bytes(), b"\0"].concat())?,
                    (Some(method), _) => return Ok(Login::Wanted(method_name(method))),
                    (None, _) => return Err(Error::Protocol("a short answer to the login".into())),
                },
                b'S' => self.note(&body),
                b'Z' => return Ok(Login::Ready),
                _ => {}
            }
        }
    }

    /// The texts of the first row of an answer.
    pub fn query(&mut self, sql: &str) -> Result<Vec<String>, Error> {
        self.send(Some(b'Q'), &[sql.as_bytes(), b"\0"].concat())?;
        let mut row = None;
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'D' if row.is_none() => row = Some(columns(&body).ok_or_else(|| Error::Protocol("a broken row".into()))?),
                b'Z' => return Ok(row.unwrap_or_default()),
                _ => {}
            }
        }
    }

    pub fn end(mut self) -> Result<(), Error> {
        self.send(Some(b'X'), &[])
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> Result<(), Error> {
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        Ok(self.conn.write_all(&message)?)
    }

    /// The next message; one that tells an error is the error.
    fn receive(&mut self) -> Result<(u8, Vec<u8>), Error> {
        let mut head = [0; 5];
        self.conn.read_exact(&mut head)?;
        let size = number(&head[1..]).and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
        if !head[0].is_ascii_alphabetic() || !(4..=MAX_MESSAGE).contains(&size) {
            return Err(Error::Protocol(format!("it says {:?}", String::from_utf8_lossy(&head))));
        }
        let mut body = vec![0; size - 4];
        self.conn.read_exact(&mut body)?;
        match head[0] {
            b'E' => Err(Error::Server(told(&body))),
            kind => Ok((kind, body)),
        }
    }

    fn note(&mut self, body: &[u8]) {
        let mut texts = body.split(|b| *b == 0).map(String::from_utf8_lossy);
        if let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            self.parameters.insert(name.into(), value.into());
        }
    }
}

fn number(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?))
}

fn method_name(method: i32) -> &'static str {
    match method {
        3 => "password",
        5 => "MD5",
        7 | 8 => "GSSAPI",
        9 => "SSPI",
        10 => "SASL",
        _ => "an unknown method",
    }
}

/// The columns of a row; NULL is an empty text.
fn columns(body: &[u8]) -> Option<Vec<String>> {
    let count = u16::from_be_bytes(<[u8; 2]>::try_from(body.get(..2)?).ok()?);
    let mut rest = &body[2..];
    let mut row = Vec::new();
    for _ in 0..count {
        let size = usize::try_from(number(rest)?.max(0)).ok()?;
        row.push(String::from_utf8_lossy(rest.get(4..4 + size)?).into_owned());
        rest = &rest[4 + size..];
    }
    Some(row)
}

/// What an error message says: "FATAL: the database system is starting up (57P03)".
fn told(body: &[u8]) -> String {
    let field = |kind: u8| {
        let found = body.split(|b| *b == 0).find(|f| f.first() == Some(&kind));
        found.map(|f| String::from_utf8_lossy(&f[1..]).into_owned()).unwrap_or_default()
    };
    format!("{}: {} ({})", field(b'S'), field(b'M'), field(b'C'))
}
