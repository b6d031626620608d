//! Logins with mysql_native_password and caching_sha2_password.

use crate::wire::{Reader, Session, CONNECT_WITH_DB, PLUGIN_AUTH, PROTOCOL_41, SECURE_CONNECTION, SSL};
use common::peer::{shown, Error, Result};
use prober::digest::{sha1, sha256};

pub struct Credentials {
    pub username: String,
    pub password: String,
    pub database: String,
    /// Whether the connection has TLS.
    pub secure: bool,
}

const NATIVE: &str = "mysql_native_password";
const SHA2: &str = "caching_sha2_password";
const MAX_ROUNDS: usize = 8;
const MAX_PACKET: u32 = 1 << 20;
const UTF8: u8 = 33;

/// Returns the start of a login, which is all that comes before TLS.
pub fn hello(s: &Session, c: &Credentials) -> Vec<u8> {
    let mut flags = PROTOCOL_41 | SECURE_CONNECTION | (s.greeting.capabilities & PLUGIN_AUTH);
    if c.secure {
        flags |= SSL;
    }
    if !c.database.is_empty() {
        flags |= CONNECT_WITH_DB;
    }
    let mut body = [flags.to_le_bytes(), MAX_PACKET.to_le_bytes()].concat();
    body.push(UTF8);
    body.resize(32, 0);
    body
}

pub fn log_in(s: &mut Session, c: &Credentials) -> Result<()> {
    if !s.offers(PROTOCOL_41 | SECURE_CONNECTION) {
        return Err(unsupported("the method of MySQL 4.0"));
    }
    let mut method = if s.greeting.method == SHA2 { SHA2 } else { NATIVE }.to_string();
    let mut body = hello(s, c);
    let proof = answer(&method, c, &s.greeting.salt).unwrap_or_default();
    body.extend_from_slice(&[c.username.as_bytes(), &[0, proof.len() as u8], &proof].concat());
    if !c.database.is_empty() {
        body.extend_from_slice(&[c.database.as_bytes(), &[0]].concat());
    }
    body.extend_from_slice(&[method.as_bytes(), &[0]].concat());
    s.peer.awaits("the login");
    s.send(&body)?;
    for _ in 0..MAX_ROUNDS {
        let body = s.receive()?;
        let mut r = Reader(&body[1..]);
        match (body[0], r.0.first()) {
            (0, _) => return Ok(()),
            (0xfe, None) => return Err(unsupported("mysql_old_password")),
            (0xfe, _) => {
                method = r.until_zero().unwrap_or_default().into_owned();
                let salt = r.0.get(..20).unwrap_or(r.0);
                match answer(&method, c, salt) {
                    Some(proof) => s.send(&proof)?,
                    None => return Err(unsupported(&shown(method.as_bytes()))),
                }
            }
            (1, Some(3)) if method == SHA2 => {}
            (1, Some(4)) if method == SHA2 && c.secure => s.send(&[c.password.as_bytes(), &[0]].concat())?,
            (1, Some(4)) if method == SHA2 => {
                return Err(Error::Refused("the server asks for a login by caching_sha2_password over TLS: set tls".into()))
            }
            _ => return Err(s.peer.protocol("an unexpected answer to the login")),
        }
    }
    Err(s.peer.protocol("a login without an end"))
}

fn unsupported(method: &str) -> Error {
    Error::Refused(format!("the server asks for a login by {}, which is not supported", method))
}

/// Returns the proof that the client knows the password; None for a method that is not
/// implemented here. Without a password it is empty.
fn answer(method: &str, c: &Credentials, salt: &[u8]) -> Option<Vec<u8>> {
    let password = c.password.as_bytes();
    let (once, mask) = match method {
        NATIVE => {
            let once = sha1(password);
            (once.to_vec(), sha1(&[salt, &sha1(&once)].concat()).to_vec())
        }
        SHA2 => {
            let once = sha256(password);
            (once.to_vec(), sha256(&[&sha256(&once), salt].concat()).to_vec())
        }
        _ => return None,
    };
    let size = if password.is_empty() { 0 } else { once.len() };
    Some(once.iter().zip(mask).map(|(a, b)| a ^ b).take(size).collect())
}
