//! The part of version 3.0 of the protocol of PostgreSQL that a login and a query need.

use common::peer::{shown, Error, Peer, Result, MAX_MESSAGE};
use common::scram::{Proof, Scram, SHA256};
use prober::digest::md5;

const VERSION: i32 = 3 << 16;
const SSL_REQUEST: i32 = 80877103;

/// Who logs in, and where.
pub struct Credentials {
    pub user: String,
    pub database: String,
    pub password: Option<String>, // None: not set
    /// Whether the connection has TLS.
    pub secure: bool,
}

/// How a login ended.
pub enum Login {
    /// The version of the server.
    Ready(String),
    /// The server asks for a password that is not set.
    Wanted(String),
}

/// The answer to a query.
#[derive(Default)]
pub struct Answer {
    /// The values of the first row; None is NULL.
    pub first: Vec<Option<String>>,
    pub rows: u64,
}

/// Starts TLS, which the server must offer.
pub fn start_tls(peer: &mut Peer) -> Result<()> {
    peer.awaits("the request for TLS");
    send(peer, None, &SSL_REQUEST.to_be_bytes())?;
    match peer.exact(1)?[0] {
        b'S' => peer.start_tls(),
        b'N' => Err(Error::Tls("the server does not offer TLS".into())),
        other => Err(peer.unexpected(&[other]).during("the request for TLS")),
    }
}

pub fn log_in(peer: &mut Peer, c: &Credentials) -> Result<Login> {
    let mut hello = VERSION.to_be_bytes().to_vec();
    for text in ["user", &c.user, "database", &c.database, "application_name", "prober", ""] {
        hello.extend_from_slice(text.as_bytes());
        hello.push(0);
    }
    peer.awaits("the login");
    send(peer, None, &hello)?;
    let mut version = String::new();
    loop {
        let (kind, body) = receive(peer)?;
        match kind {
            b'R' => {
                if let Some(wanted) = authenticate(peer, c, &body)? {
                    return Ok(Login::Wanted(wanted));
                }
            }
            b'S' => {
                let mut texts = body.split(|b| *b == 0);
                if texts.next() == Some(b"server_version") {
                    version = shown(texts.next().unwrap_or_default());
                }
            }
            b'Z' => return Ok(Login::Ready(version)),
            _ => {}
        }
    }
}

/// Answers a request for authentication. It returns the method if a password is needed and not set.
fn authenticate(peer: &mut Peer, c: &Credentials, body: &[u8]) -> Result<Option<String>> {
    let method = number(body).ok_or_else(|| peer.protocol("a short answer to the login"))?;
    let rest = &body[4..];
    if method == 0 {
        return Ok(None);
    }
    let name = method_name(method, rest);
    let password = match &c.password {
        Some(password) => password,
        None => return Ok(Some(name)),
    };
    match method {
        3 if c.secure => send(peer, Some(b'p'), &[password.as_bytes(), b"\0"].concat())?,
        3 => return Err(Error::Refused("the server asks for the password in clear text, which needs TLS".into())),
        5 if rest.len() == 4 => send(peer, Some(b'p'), &[hashed(c, password, rest).as_bytes(), b"\0"].concat())?,
        10 if offers(rest, SHA256.name) => scram(peer, password)?,
        _ => return Err(Error::Refused(format!("the server asks for a login by {}, which is not supported", name))),
    }
    Ok(None)
}

/// Returns the answer to a request for a password by MD5.
fn hashed(c: &Credentials, password: &str, salt: &[u8]) -> String {
    let hex = |data: &[u8]| -> String { md5(data).iter().map(|b| format!("{:02x}", b)).collect() };
    let inner = hex(&[password.as_bytes(), c.user.as_bytes()].concat());
    "md5".to_string() + &hex(&[inner.as_bytes(), salt].concat())
}

/// Makes a login with SCRAM, until the server has sent its proof.
fn scram(peer: &mut Peer, password: &str) -> Result<()> {
    let scram = Scram::new(&SHA256, "")?;
    let first = scram.first();
    let size = (first.len() as u32).to_be_bytes();
    send(peer, Some(b'p'), &[SHA256.name.as_bytes(), b"\0", &size, first.as_bytes()].concat())?;
    let challenge = sasl(peer, 11)?;
    let Proof { message, wanted } =
        scram.prove(&challenge, password).ok_or_else(|| peer.protocol("a malformed challenge of SCRAM"))?;
    send(peer, Some(b'p'), message.as_bytes())?;
    match sasl(peer, 12)? == wanted {
        true => Ok(()),
        false => Err(Error::Refused("the server does not prove that it knows the password".into())),
    }
}

/// Returns the text of a step of SASL.
fn sasl(peer: &mut Peer, step: i32) -> Result<String> {
    match receive(peer)? {
        (b'R', body) if number(&body) == Some(step) => Ok(String::from_utf8_lossy(&body[4..]).into_owned()),
        _ => Err(peer.protocol("an unexpected answer to the login")),
    }
}

/// Returns the answer to a query, whose name is in messages.
pub fn query(peer: &mut Peer, name: &str, sql: &str) -> Result<Answer> {
    peer.awaits(name);
    send(peer, Some(b'Q'), &[sql.as_bytes(), b"\0"].concat())?;
    let mut answer = Answer::default();
    loop {
        let (kind, body) = receive(peer)?;
        match kind {
            b'D' if answer.rows == 0 => {
                answer.first = columns(&body).ok_or_else(|| peer.protocol("a malformed row"))?;
                answer.rows = 1;
            }
            b'D' => answer.rows += 1,
            b'G' | b'H' | b'W' => return Err(Error::Refused("the query is a COPY".into())),
            b'Z' => return Ok(answer),
            _ => {}
        }
    }
}

/// Ends the session. The server may have closed the connection already.
pub fn end(peer: &mut Peer) {
    let _ = send(peer, Some(b'X'), &[]);
}

fn send(peer: &mut Peer, kind: Option<u8>, body: &[u8]) -> Result<()> {
    let mut message: Vec<u8> = kind.into_iter().collect();
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    peer.send(&message)
}

/// Returns the next message. An error message becomes an error.
fn receive(peer: &mut Peer) -> Result<(u8, Vec<u8>)> {
    let head = peer.exact(5)?;
    let size = number(&head[1..]).and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    if !head[0].is_ascii_alphabetic() || !(4..=MAX_MESSAGE).contains(&size) {
        return Err(peer.unexpected(&head));
    }
    let body = peer.exact(size - 4)?;
    match head[0] {
        b'E' => Err(Error::Refused(error_text(&body))),
        kind => Ok((kind, body)),
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
        3 => "a password in clear text".into(),
        5 => "MD5".into(),
        7 | 8 => "GSSAPI".into(),
        9 => "SSPI".into(),
        10 => shown(rest),
        _ => "an unknown method".into(),
    }
}

/// Returns the columns of a row.
fn columns(body: &[u8]) -> Option<Vec<Option<String>>> {
    let count = u16::from_be_bytes(<[u8; 2]>::try_from(body.get(..2)?).ok()?);
    let mut rest = &body[2..];
    let mut row = Vec::new();
    for _ in 0..count {
        let size = number(rest)?;
        rest = &rest[4..];
        row.push(match usize::try_from(size) {
            Ok(size) => {
                let value = rest.get(..size)?;
                rest = &rest[size..];
                Some(String::from_utf8_lossy(value).into_owned())
            }
            Err(_) => None,
        });
    }
    Some(row)
}

/// Returns the text of an error message: "FATAL: the database system is starting up (57P03)".
fn error_text(body: &[u8]) -> String {
    let field = |kind: u8| {
        let found = body.split(|b| *b == 0).find(|f| f.first() == Some(&kind));
        found.map(|f| shown(&f[1..])).unwrap_or_default()
    };
    format!("{}: {} ({})", field(b'S'), field(b'M'), field(b'C'))
}
