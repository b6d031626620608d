//! The plugin pop3: reads the greeting of a POP3 server, and by choice starts TLS, checks the capabilities, logs in
//! and counts the messages. Read talk first.

use common::bounds;
use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use prober::Request;
use std::time::Instant;

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "POP3", tls_first: true };

/// The most lines of a list of capabilities.
const MAX_LINES: usize = 100;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    common::validate_mail(&Config::of(&request), &["messages", "size"])
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let config = peer.config;
    let start = Instant::now();
    peer.awaits_greeting();
    let greeting = reply(peer, "the greeting")?;
    peer.findings.metric("greeting_seconds", "s", start.elapsed().as_secs_f64());
    if config.flag("startTLS") {
        ask(peer, "STLS", "STLS")?;
        peer.start_tls()?;
    }
    let mut offer = capabilities(peer)?;
    let mut success = greeting;
    if config.get("username").is_some() {
        let start = Instant::now();
        ask(peer, &format!("USER {}", config.text("username")), "USER")?;
        ask(peer, &format!("PASS {}", config.text("password")), "the login")?;
        peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
        offer.extend(capabilities(peer)?); // servers may offer more after a login
        success += &check_mailbox(peer)?;
    }
    for name in config.texts("capabilities") {
        if !has(&offer, &name) {
            peer.findings.fail_for("body", format!("the server does not offer {}", name));
        }
    }
    let _ = ask(peer, "QUIT", "QUIT"); // servers may close the connection at once
    Ok(success)
}

/// Returns the lines of CAPA, which old servers do not know, if the config needs them.
fn capabilities(peer: &mut Peer) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    if peer.config.get("capabilities").is_none() {
        return Ok(lines);
    }
    ask(peer, "CAPA", "CAPA")?;
    while lines.len() < MAX_LINES {
        match peer.line()?.as_str() {
            "." => return Ok(lines),
            line => lines.push(line.trim().to_owned()),
        }
    }
    Err(peer.protocol(format!("an answer of more than {} lines", MAX_LINES)).during("CAPA"))
}

/// Reports whether a list has a capability: its name, such as "SASL", or the name and one of its words, such as
/// "SASL PLAIN".
fn has(offer: &[String], capability: &str) -> bool {
    let (name, word) = capability.split_once(' ').unwrap_or((capability, ""));
    offer.iter().any(|line| {
        let mut words = line.split(' ');
        words.next().map_or(false, |n| n.eq_ignore_ascii_case(name)) && (word.is_empty() || words.any(|w| w.eq_ignore_ascii_case(word)))
    })
}

/// Checks the bounds of the mailbox, and returns text for the message of a Success.
fn check_mailbox(peer: &mut Peer) -> Result<String> {
    let config = peer.config;
    let answer = ask(peer, "STAT", "STAT")?;
    let mut numbers = answer.split(' ').map(|n| n.parse::<u64>().ok());
    let (messages, size) = match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(messages), Some(size)) => (messages, size),
        _ => return Err(peer.protocol(format!("it sent {:?}", format!("+OK {}", answer))).during("STAT")),
    };
    peer.findings.metric("mailbox_messages", "", messages as f64);
    peer.findings.metric("mailbox_size_bytes", "bytes", size as f64);
    bounds::check(&mut peer.findings, config, "messages", "the number of messages", &messages.to_string());
    bounds::check(&mut peer.findings, config, "size", "the size of the mailbox", &size.to_string());
    Ok(format!("; {} messages, {} bytes", messages, size))
}

/// Sends a line, and returns the text of the answer. name is its name in messages, which never have the password.
fn ask(peer: &mut Peer, line: &str, name: &str) -> Result<String> {
    peer.awaits(name);
    peer.send(format!("{}\r\n", line).as_bytes())?;
    reply(peer, name)
}

fn reply(peer: &mut Peer, name: &str) -> Result<String> {
    let line = peer.line()?;
    match line.split_once(' ').unwrap_or((&line, "")) {
        ("+OK", text) => Ok(shown(text.as_bytes())),
        ("-ERR", text) => Err(Error::Refused(format!("{}: the server says -ERR {}", name, shown(text.as_bytes())))),
        _ => Err(peer.protocol(format!("it sent {:?}", shown(line.as_bytes())))),
    }
}
