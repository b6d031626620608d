//! SCRAM-SHA-256 (RFC 7677), in which client and server prove to each other that they know
//! the password, without sending it.

use prober::digest::{from_base64, hmac_sha256, pbkdf2_sha256, sha256, to_base64};

pub const MECHANISM: &str = "SCRAM-SHA-256";

const HEADER: &str = "n,,"; // no channel binding
const MAX_ROUNDS: u32 = 1_000_000;

/// A login that begins with the first message of the client.
pub struct Scram {
    bare: String,
    nonce: String,
}

/// The last message of the client, and the signature that the server must answer with.
pub struct Proof {
    pub message: String,
    pub wanted: String,
}

impl Scram {
    /// The server has the name of the user already.
    pub fn new(random: &[u8]) -> Scram {
        let nonce = to_base64(random);
        Scram { bare: format!("n=,r={}", nonce), nonce }
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
        let key = pbkdf2_sha256(password.as_bytes(), &salt, rounds);
        let own = hmac_sha256(&key, b"Client Key");
        let mask = hmac_sha256(&sha256(&own), all.as_bytes());
        let proof: Vec<u8> = own.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        let theirs = hmac_sha256(&hmac_sha256(&key, b"Server Key"), all.as_bytes());
        Some(Proof { message: format!("{},p={}", last, to_base64(&proof)), wanted: format!("v={}", to_base64(&theirs)) })
    }
}
