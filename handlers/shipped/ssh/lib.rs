//! The plugin ssh: reads the identification of an SSH server, and by choice makes a key exchange and compares the
//! host key. Read talk first, then exchange.rs.

mod curve;
mod exchange;
mod packet;

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use prober::Request;
use std::time::Instant;

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "SSH", tls_first: false };

/// The identification of the client, without its end.
const CLIENT: &str = "SSH-2.0-prober";

/// The most lines before the identification of a server.
const MAX_LINES: usize = 50;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    common::validate_limits(&Config::of(&request))
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let server = identification(peer)?;
    peer.findings.metric("greeting_seconds", "s", start.elapsed().as_secs_f64());
    let sent = peer.send(format!("{}\r\n", CLIENT).as_bytes());
    let want = peer.config.text("software");
    if !software(&server).starts_with(&want) {
        peer.findings.fail_for("body", format!("the software is {}, want {}", shown(software(&server).as_bytes()), want));
    }
    if peer.config.get("hostKey").is_none() {
        return Ok(shown(server.as_bytes()));
    }
    sent?;
    let start = Instant::now();
    let key = exchange::host_key(peer, CLIENT, &server)?;
    peer.findings.metric("key_exchange_seconds", "s", start.elapsed().as_secs_f64());
    peer.findings.labelled("host_key_info", "", 1.0, &[("fingerprint_sha256", &key.fingerprint), ("type", &key.kind)]);
    let want = peer.config.text("hostKey");
    if key.fingerprint != want.trim_end_matches('=') {
        return Err(Error::Refused(format!("the host key is {} {}, want {}", key.kind, key.fingerprint, want)));
    }
    Ok(format!("{}, {} {}", shown(server.as_bytes()), key.kind, key.fingerprint))
}

/// Returns the line of a server that begins with "SSH-". Servers may send other lines before, such as why they refuse.
fn identification(peer: &mut Peer) -> Result<String> {
    peer.awaits_greeting();
    for _ in 0..MAX_LINES {
        let line = peer.line()?;
        match line.split('-').nth(1).filter(|_| line.starts_with("SSH-")) {
            Some("2.0" | "1.99") if !software(&line).is_empty() => return Ok(line),
            Some("2.0" | "1.99") => return Err(peer.protocol(format!("it sent {:?}", shown(line.as_bytes())))),
            Some(version) => return Err(Error::Refused(format!("the server has version {} of SSH, want 2.0", shown(version.as_bytes())))),
            None => peer.awaits_or(&format!("no identification of SSH after {:?}", shown(line.as_bytes()))),
        }
    }
    Err(peer.protocol(format!("more than {} lines before its identification", MAX_LINES)))
}

/// Returns the name and version of the software in an identification.
fn software(identification: &str) -> &str {
    identification.splitn(3, '-').nth(2).unwrap_or_default().split(' ').next().unwrap_or_default()
}
