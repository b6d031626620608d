//! The part of version 3.0 of the protocol of PostgreSQL that a few queries need.

use crate::scram::{Proof, Scram, MECHANISM};
use prober::net::Conn;
use std::convert::TryFrom;
use std::fmt;
use std::io::{self, Read, Write};

/// Why the server did not answer.
pub enum Error {
    Io(io::Error),
    /// The server returned an error: severity, SQLSTATE and message.
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

impl Error {
    /// Returns the reason of the failure; "" if the host knows it.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Io(_) => "",
            Error::Server(_) => "body",
            Error::Protocol(_) => "protocol",
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

/// How a login ended.
pub enum Login {
    Ready,
    /// The server wants a method that is not implemented here, or a password that is not set.
    Wanted(String),
}

pub struct Session {
    conn: Conn,
    /// The parameters that the server sent at the login.
    pub version: String,
}

const VERSION: i32 = 3 << 16;
const SSL_REQUEST: i32 = 80877103;
const MAX_MESSAGE: usize = 64 << 10;
const NONCE: usize = 18;

impl Session {
    pub fn new(conn: Conn) -> Session {
        Session { conn, version: String::new() }
    }

    /// Starts TLS; returns false if the server does not offer it.
    pub fn start_tls(&mut self, options: &str) -> Result<bool, Error> {
        self.send(None, &SSL_REQUEST.to_be_bytes())?;
        let mut answer = [0];
        self.conn.read_exact(&mut answer)?;
        match answer[0] {
            b'S' => Ok(self.conn.start_tls(options).map(|_| true)?),
            b'N' => Ok(false),
            _ => Err(Error::Protocol(format!("it says {:?} to TLS", String::from_utf8_lossy(&answer)))),
        }
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
                b'R' => {
                    let method = number(&body).ok_or_else(|| broken("a short answer to the login"))?;
                    match (method, password) {
                        (0, _) => {}
                        (3, Some(password)) => self.send(Some(b'p'), &[password.as_bytes(), b"\0"].concat())?,
                        (10, Some(password)) if offers(&body[4..], MECHANISM) => self.scram(password)?,
                        _ => return Ok(Login::Wanted(method_name(method, &body[4..]))),
                    }
                }
                b'S' => self.note(&body),
                b'Z' => return Ok(Login::Ready),
                _ => {}
            }
        }
    }

    /// Makes a login with SCRAM, until the server has sent its proof.
    fn scram(&mut self, password: &str) -> Result<(), Error> {
        let mut random = [0; NONCE];
        prober::random(&mut random)?;
        let scram = Scram::new(&random);
        let first = scram.first();
        let size = (first.len() as u32).to_be_bytes();
        self.send(Some(b'p'), &[MECHANISM.as_bytes(), b"\0", &size, first.as_bytes()].concat())?;
        let Proof { message, wanted } =
            scram.prove(&self.sasl(11)?, password).ok_or_else(|| broken("a broken challenge of SCRAM"))?;
        self.send(Some(b'p'), message.as_bytes())?;
        match self.sasl(12)? == wanted {
            true => Ok(()),
            false => Err(Error::Server("the server does not prove that it knows the password".into())),
        }
    }

    /// Returns the text of a step of SASL.
    fn sasl(&mut self, step: i32) -> Result<String, Error> {
        match self.receive()? {
            (b'R', body) if number(&body) == Some(step) => Ok(String::from_utf8_lossy(&body[4..]).into_owned()),
            _ => Err(broken("a strange answer to the login")),
        }
    }

    /// Returns the values of the first row of an answer.
    pub fn query(&mut self, sql: &str) -> Result<Vec<String>, Error> {
        self.send(Some(b'Q'), &[sql.as_bytes(), b"\0"].concat())?;
        let mut row = None;
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'D' if row.is_none() => row = Some(columns(&body).ok_or_else(|| broken("a broken row"))?),
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

    /// Returns the next message. An error message becomes an error.
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
        let mut texts = body.split(|b| *b == 0);
        if texts.next() == Some(b"server_version") {
            self.version = texts.next().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned());
        }
    }
}

fn number(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?))
}

/// Reports whether a mechanism is in the list of SASL mechanisms.
fn offers(body: &[u8], mechanism: &str) -> bool {
    body.split(|b| *b == 0).any(|name| name == mechanism.as_bytes())
}

fn method_name(method: i32, rest: &[u8]) -> String {
    match method {
        3 => "password".into(),
        5 => "MD5".into(),
        7 | 8 => "GSSAPI".into(),
        9 => "SSPI".into(),
        10 => String::from_utf8_lossy(rest).replace('\0', " ").trim().into(),
        _ => "an unknown method".into(),
    }
}

/// Returns the columns of a row; NULL becomes an empty string.
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

/// Returns the text of an error message: "FATAL: the database system is starting up (57P03)".
fn told(body: &[u8]) -> String {
    let field = |kind: u8| {
        let found = body.split(|b| *b == 0).find(|f| f.first() == Some(&kind));
        found.map(|f| String::from_utf8_lossy(&f[1..]).into_owned()).unwrap_or_default()
    };
    format!("{}: {} ({})", field(b'S'), field(b'M'), field(b'C'))
}
