//! The key exchange curve25519-sha256 of RFC 8731, up to the host key.

use crate::curve::{verify, x25519, BASE};
use crate::packet::{put, put_number, receive, send, Reader, DISCONNECT, KEXINIT, KEX_INIT, KEX_REPLY};
use common::peer::{shown, Error, Peer, Result};
use prober::digest::{sha256, to_base64};
use std::convert::TryFrom;

/// A host key.
pub struct Key {
    /// The type, such as "ssh-ed25519".
    pub kind: String,
    /// "SHA256:" and the digest, as ssh-keygen -l prints it.
    pub fingerprint: String,
}

const EXCHANGES: [&str; 2] = ["curve25519-sha256", "curve25519-sha256@libssh.org"];

// Lists that have something in common with all servers. Nothing of them is used, because the exchange stops before.
const CIPHERS: &str = "aes128-ctr,aes256-ctr,chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes192-ctr,aes128-cbc,aes256-cbc,3des-cbc";
const MACS: &str = "hmac-sha2-256,hmac-sha2-512,hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,umac-128-etm@openssh.com,umac-128@openssh.com,hmac-sha1";
const COMPRESSIONS: &str = "none,zlib@openssh.com,zlib";

/// Returns the algorithms for host keys of a type of the config.
fn algorithms(kind: &str) -> &'static [&'static str] {
    match kind {
        "ecdsa" => &["ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"],
        "rsa" => &["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"],
        _ => &["ssh-ed25519"],
    }
}

/// Makes a key exchange and returns the host key. A signature of Ed25519 is verified, no other one. client and server
/// are the identifications.
pub fn host_key(peer: &mut Peer, client: &str, server: &str) -> Result<Key> {
    let offered = algorithms(&peer.config.text("hostKeyType"));
    let ours = proposal(offered)?;
    peer.awaits("the key exchange");
    send(peer, &ours)?;
    let theirs = receive(peer, KEXINIT, "the key exchange")?;
    let algorithm = agree(peer, &theirs, offered)?;
    let mut secret = [0; 32];
    prober::random(&mut secret)?;
    let public = x25519(&secret, &BASE);
    let mut message = vec![KEX_INIT];
    put(&mut message, &public);
    send(peer, &message)?;
    let reply = receive(peer, KEX_REPLY, "the key exchange")?;
    let mut rest = Reader(&reply[1..]);
    let (blob, point, signature) = match (rest.string(), rest.string().map(<[u8; 32]>::try_from), rest.string()) {
        (Some(blob), Some(Ok(point)), Some(signature)) if rest.0.is_empty() => (blob, point, signature),
        _ => return Err(peer.protocol("a malformed answer").during("the key exchange")),
    };
    let shared = x25519(&secret, &point);
    if shared == [0; 32] {
        return Err(peer.protocol("a point of low order").during("the key exchange"));
    }
    let mut all = Vec::new();
    for part in [client.as_bytes(), server.as_bytes(), &ours, &theirs, blob, &public, &point] {
        put(&mut all, part);
    }
    put_number(&mut all, &shared);
    let key = check_key(peer, algorithm, blob, &sha256(&all), signature)?;
    let mut bye = vec![DISCONNECT, 0, 0, 0, 11]; // by application
    put(&mut bye, b"probe");
    put(&mut bye, b"");
    let _ = send(peer, &bye); // the server may have closed the connection
    Ok(key)
}

/// Returns the message with the algorithms of the client.
fn proposal(host_keys: &[&str]) -> Result<Vec<u8>> {
    let mut cookie = [0; 16];
    prober::random(&mut cookie)?;
    let mut message = vec![KEXINIT];
    message.extend_from_slice(&cookie);
    for list in [&EXCHANGES.join(","), &host_keys.join(","), CIPHERS, CIPHERS, MACS, MACS, COMPRESSIONS, COMPRESSIONS, "", ""] {
        put(&mut message, list.as_bytes());
    }
    message.extend_from_slice(&[0; 5]); // no packet follows
    Ok(message)
}

/// Returns the algorithm of the host key: the first one that the server has too.
fn agree<'a>(peer: &Peer, theirs: &[u8], offered: &[&'a str]) -> Result<&'a str> {
    let mut rest = Reader(theirs.get(17..).unwrap_or_default());
    let (exchanges, keys) = match (rest.names(), rest.names()) {
        (Some(exchanges), Some(keys)) => (exchanges, keys),
        _ => return Err(peer.protocol("malformed lists of algorithms").during("the key exchange")),
    };
    if !EXCHANGES.iter().any(|e| exchanges.iter().any(|x| x == e)) {
        return Err(Error::Refused(format!("the server does not offer the key exchange {}, but {}", EXCHANGES[0], shown(exchanges.join(", ").as_bytes()))));
    }
    match offered.iter().find(|o| keys.iter().any(|k| k == *o)) {
        Some(algorithm) => Ok(algorithm),
        None => Err(Error::Refused(format!("the server has no host key of {}, but of {}", offered.join(", "), shown(keys.join(", ").as_bytes())))),
    }
}

fn check_key(peer: &Peer, algorithm: &str, blob: &[u8], hash: &[u8; 32], signature: &[u8]) -> Result<Key> {
    let mut rest = Reader(blob);
    let kind = String::from_utf8_lossy(rest.string().unwrap_or_default()).into_owned();
    let want = if algorithm.starts_with("rsa-") { "ssh-rsa" } else { algorithm };
    if kind != want {
        return Err(peer.protocol(format!("a host key of {:?}, want {:?}", shown(kind.as_bytes()), want)).during("the key exchange"));
    }
    let fingerprint = format!("SHA256:{}", to_base64(&sha256(blob)).trim_end_matches('='));
    if algorithm == "ssh-ed25519" {
        let mut signed = Reader(signature);
        let name = signed.string();
        let proven = match (rest.string().map(<[u8; 32]>::try_from), signed.string().map(<[u8; 64]>::try_from)) {
            (Some(Ok(key)), Some(Ok(signature))) if name == Some(b"ssh-ed25519") => verify(&key, hash, &signature),
            _ => false,
        };
        if !proven || !rest.0.is_empty() || !signed.0.is_empty() {
            return Err(Error::Refused(format!("the host key is {} {}, but the signature of the server is wrong", kind, fingerprint)));
        }
    }
    Ok(Key { kind, fingerprint })
}
