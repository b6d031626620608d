//! Requests in datagrams, which may be lost. Read exchange first.

use prober::net::{self, Conn};
use prober::Request;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// How many requests are sent at most.
pub const TRIES: u32 = 3;

/// The time for one request of an attempt without a deadline.
const SHARE: Duration = Duration::from_secs(1);

/// Connects to the target over UDP. Without a port in the target it is the protocol's own.
pub fn dial(request: &Request, port: u16) -> io::Result<Conn> {
    let host = request.host();
    if host.is_empty() || request.port() != 0 {
        return net::dial("udp://", None);
    }
    let host = if host.contains(':') { format!("[{}]", host) } else { host };
    net::dial(&format!("udp://{}:{}", host, port), None)
}

/// Sends a request, and again after each third of the time that is left, until accept returns something for a
/// datagram. Other datagrams are counted and ignored. silence is the message of an attempt whose time ends first.
pub fn exchange<T>(
    conn: &mut Conn,
    silence: &str,
    mut request: impl FnMut() -> io::Result<Vec<u8>>,
    mut accept: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<T> {
    prober::progress(silence);
    let start = Instant::now();
    let share = prober::deadline().map_or(SHARE, |left| left / TRIES);
    let mut buf = vec![0; 64 << 10];
    let mut ignored = 0;
    for n in 1..=TRIES {
        conn.write_all(&request()?)?;
        loop {
            let left = (share * n).saturating_sub(start.elapsed());
            if n < TRIES && left.as_millis() == 0 {
                break;
            }
            conn.set_timeout(Some(left).filter(|_| n < TRIES));
            match conn.read(&mut buf) {
                Ok(size) => match accept(&buf[..size]) {
                    Some(answer) => return Ok(answer),
                    None => {
                        ignored += 1;
                        prober::progress(&format!("{}; datagrams that do not answer the request: {}", silence, ignored));
                    }
                },
                Err(e) if n < TRIES && e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, silence))
}
