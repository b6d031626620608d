//! SCRAM (RFC 5802, RFC 7677), in which client and server prove to each other that they know the password,
//! without sending it.

use prober::digest::{from_base64, hmac_sha256, hmac_sha512, pbkdf2_sha256, pbkdf2_sha512, sha256, sha512, to_base64};

/// How many random bytes a nonce needs.
pub const NONCE: usize = 18;

const HEADER: &str = "n,,"; // no channel binding
const MAX_ROUNDS: u32 = 1_000_000;

/// The digest of a mechanism.
pub struct Mechanism {
    pub name: &'static str,
    hash: fn(&[u8]) -> Vec<u8>,
    hmac: fn(&[u8], &[u8]) -> Vec<u8>,
    stretch: fn(&[u8], &[u8], u32) -> Vec<u8>, // PBKDF2
}

pub static SHA256: Mechanism = Mechanism {
    name: "SCRAM-SHA-256",
    hash: |data| sha256(data).to_vec(),
    hmac: |key, data| hmac_sha256(key, data).to_vec(),
    stretch: |password, salt, rounds| pbkdf2_sha256(password, salt, rounds).to_vec(),
};

pub static SHA512: Mechanism = Mechanism {
    name: "SCRAM-SHA-512",
    hash: |data| sha512(data).to_vec(),
    hmac: |key, data| hmac_sha512(key, data).to_vec(),
    stretch: |password, salt, rounds| pbkdf2_sha512(password, salt, rounds).to_vec(),
};

/// A login that begins with the first message of the client.
pub struct Scram {
    mechanism: &'static Mechanism,
    bare: String,
    nonce: String,
}

/// The last message of the client, and the signature that the server must answer with.
pub struct Proof {
    pub message: String,
    pub wanted: String,
}

impl Scram {
    /// Begins a login. user is "" if the server has the name already.
    pub fn new(mechanism: &'static Mechanism, user: &str) -> std::io::Result<Scram> {
        let mut random = [0; NONCE];
        prober::random(&mut random)?;
        let nonce = to_base64(&random);
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Ok(Scram { mechanism, bare: format!("n={},r={}", user, nonce), nonce })
    }

    pub fn first(&self) -> String {
        HEADER.to_string() + &self.bare
    }

    /// Returns the answer to the first message of the server; None if that is malformed.
    pub fn prove(&self, server: &str, password: &str) -> Option<Proof> {
        let field = |name: &str| server.split(',').find_map(|f| f.strip_prefix(name));
        let (nonce, salt) = (field("r=")?, from_base64(field("s=")?)?);
        let rounds = field("i=")?.parse().ok().filter(|n| (1..=MAX_ROUNDS).contains(n))?;
        if !nonce.starts_with(&self.nonce) || nonce == self.nonce {
            return None;
        }
        let last = format!("c={},r={}", to_base64(HEADER.as_bytes()), nonce);
        let all = [&self.bare, server, &last].join(",");
        let Mechanism { hash, hmac, stretch, .. } = self.mechanism;
        let key = stretch(password.as_bytes(), &salt, rounds);
        let own = hmac(&key, b"Client Key");
        let mask = hmac(&hash(&own), all.as_bytes());
        let proof: Vec<u8> = own.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        let theirs = hmac(&hmac(&key, b"Server Key"), all.as_bytes());
        Some(Proof { message: format!("{},p={}", last, to_base64(&proof)), wanted: format!("v={}", to_base64(&theirs)) })
    }
}
