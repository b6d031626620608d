//! The plugin smtp: reads the greeting of a mail server, sends EHLO, and by choice starts TLS, checks the
//! extensions and logs in. Read talk first.

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use prober::digest::to_base64;
use prober::Request;
use std::time::Instant;

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "SMTP", tls_first: true };

const MAX_LINES: usize = 100;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    common::validate_mail(&Config::of(&request), &[])
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    peer.awaits_greeting();
    let greeting = reply(peer)?.want(220, "the greeting")?;
    peer.findings.metric("greeting_seconds", "s", start.elapsed().as_secs_f64());
    let hello = format!("EHLO {}", peer.config.text("name"));
    let mut offer = ask(peer, &hello, "EHLO")?.want(250, "EHLO")?;
    if peer.config.flag("startTLS") {
        if !offer.offers("STARTTLS") {
            return Err(Error::Tls("the server does not offer STARTTLS".into()));
        }
        ask(peer, "STARTTLS", "STARTTLS")?.want(220, "STARTTLS")?;
        peer.start_tls()?;
        offer = ask(peer, &hello, "EHLO")?.want(250, "EHLO over TLS")?;
    }
    for name in peer.config.texts("extensions") {
        if !offer.offers(&name) {
            peer.findings.fail_for("body", format!("the server does not offer {}", name));
        }
    }
    if peer.config.get("username").is_some() {
        let start = Instant::now();
        log_in(peer, &offer)?;
        peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    }
    let _ = peer.send(b"QUIT\r\n"); // the reply does not matter, and may never come
    Ok(format!("{} {}", greeting.code, greeting.lines[0]))
}

/// Logs in by AUTH PLAIN, or by AUTH LOGIN if the server offers that alone.
fn log_in(peer: &mut Peer, offer: &Reply) -> Result<()> {
    let (username, password) = (peer.config.text("username"), peer.config.text("password"));
    let methods = offer.lines.iter().find_map(|l| l.to_ascii_uppercase().strip_prefix("AUTH ").map(str::to_owned)).unwrap_or_default();
    let has = |method: &str| methods.split(' ').any(|m| m == method);
    if has("PLAIN") {
        let proof = to_base64(format!("\0{}\0{}", username, password).as_bytes());
        ask(peer, &format!("AUTH PLAIN {}", proof), "the login")?.want(235, "the login")?;
    } else if has("LOGIN") {
        ask(peer, "AUTH LOGIN", "the login")?.want(334, "the login")?;
        ask(peer, &to_base64(username.as_bytes()), "the login")?.want(334, "the login")?;
        ask(peer, &to_base64(password.as_bytes()), "the login")?.want(235, "the login")?;
    } else {
        return Err(Error::Refused("the server offers neither AUTH PLAIN nor AUTH LOGIN".into()));
    }
    Ok(())
}

/// A reply of one line or several: its code, and the texts of its lines.
struct Reply {
    code: u16,
    lines: Vec<String>,
}

impl Reply {
    /// Returns the reply if it has a code, else an error. to says what it answers.
    fn want(self, code: u16, to: &str) -> Result<Reply> {
        match self.code == code {
            true => Ok(self),
            false => Err(Error::Refused(format!("{}: the server says {} {}", to, self.code, self.lines.join(" ")))),
        }
    }

    fn offers(&self, extension: &str) -> bool {
        self.lines.iter().skip(1).any(|l| l.split([' ', '='].as_slice()).next().map_or(false, |w| w.eq_ignore_ascii_case(extension)))
    }
}

/// Sends a line, and returns the reply. name is its name in messages.
fn ask(peer: &mut Peer, line: &str, name: &str) -> Result<Reply> {
    peer.awaits(name);
    peer.send(format!("{}\r\n", line).as_bytes()).and_then(|_| reply(peer)).map_err(|e| e.during(name))
}

fn reply(peer: &mut Peer) -> Result<Reply> {
    let mut all = Reply { code: 0, lines: Vec::new() };
    while all.lines.len() < MAX_LINES {
        let line = peer.line()?;
        let (code, rest) = line.split_at(line.char_indices().nth(3).map_or(line.len(), |(i, _)| i));
        let number = code.parse().ok().filter(|n| (200..600).contains(n) && (all.code == 0 || *n == all.code));
        all.code = match (number, rest.chars().next()) {
            (Some(number), None | Some(' ' | '-')) => number,
            _ => return Err(peer.protocol(format!("it sent {:?}", shown(line.as_bytes())))),
        };
        all.lines.push(shown(rest.get(1..).unwrap_or_default().as_bytes()));
        if !rest.starts_with('-') {
            return Ok(all);
        }
    }
    Err(peer.protocol(format!("a reply of more than {} lines", MAX_LINES)))
}
