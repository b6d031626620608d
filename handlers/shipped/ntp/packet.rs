//! The packets of NTP: four bytes of flags, the root delay and dispersion, the reference, and the timestamps
//! reference, origin, receive and transmit.

use std::convert::TryInto;
use std::io;
use std::time::Instant;

/// The bytes of a packet without extensions.
const SIZE: usize = 48;

/// Version 4, and the modes of a client and of a server.
const CLIENT: u8 = 4 << 3 | 3;
const SERVER: u8 = 4;

/// The seconds from 1900, where NTP begins, to 1970.
const EPOCH: u64 = 2_208_988_800;

/// A request that was sent. Its transmit timestamp is a random number, which the answer must have. So nobody can
/// forge an answer without the request.
pub struct Sent {
    nonce: [u8; 8],
    time: u64,
    at: Instant,
}

impl Sent {
    /// Returns a new request, also as a packet.
    pub fn new() -> io::Result<(Vec<u8>, Sent)> {
        let mut nonce = [0; 8];
        prober::random(&mut nonce)?;
        let mut packet = vec![0; SIZE];
        packet[0] = CLIENT;
        packet[40..].copy_from_slice(&nonce);
        let now = prober::time::now()?;
        let time = (now.as_secs() + EPOCH) << 32 | (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
        Ok((packet, Sent { nonce, time, at: Instant::now() }))
    }
}

/// The answer of a server. Times are in seconds.
pub struct Answer {
    pub leap: u8,
    pub stratum: u8,
    pub root_delay: f64,
    pub root_dispersion: f64,
    /// How far the server's clock is ahead of the host's.
    pub offset: f64,
    /// The time of the request and the answer on their way.
    pub delay: f64,
    pub has_no_time: bool,
    reference: [u8; 4],
}

impl Answer {
    /// Returns the answer to one of the requests, or None for any other datagram.
    pub fn parse(data: &[u8], sent: &[Sent]) -> Option<Answer> {
        let p: &[u8; SIZE] = data.get(..SIZE)?.try_into().ok()?;
        if p[0] & 7 != SERVER {
            return None;
        }
        let request = sent.iter().find(|s| s.nonce == p[24..32])?;
        let took = request.at.elapsed().as_secs_f64();
        let (received, transmitted) = (number(&p[32..40]), number(&p[40..48]));
        let held = between(received, transmitted);
        let short = |from: usize| number(&p[from..from + 4]) as f64 / 65536.0;
        Some(Answer {
            leap: p[0] >> 6,
            stratum: p[1],
            root_delay: short(4),
            root_dispersion: short(8),
            offset: between(request.time, received) - (took - held) / 2.0,
            delay: (took - held).max(0.0),
            has_no_time: received == 0 || transmitted == 0,
            reference: p[12..16].try_into().ok()?,
        })
    }

    /// Returns how far the server's clock may be off, as RFC 5905 has it for a client.
    pub fn root_distance(&self) -> f64 {
        (self.root_delay + self.delay) / 2.0 + self.root_dispersion
    }

    /// Returns the code of an answer of stratum 0, such as "RATE".
    pub fn kiss(&self) -> Option<String> {
        let code: String = self.reference.iter().take_while(|b| b.is_ascii_graphic()).map(|b| char::from(*b)).collect();
        Some(code).filter(|c| !c.is_empty())
    }
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Returns the seconds from a to b. It is right across the end of an NTP era too.
fn between(a: u64, b: u64) -> f64 {
    b.wrapping_sub(a) as i64 as f64 / 4_294_967_296.0
}
