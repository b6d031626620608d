//! The plugin imap: reads the greeting of an IMAP server and its capabilities, and by choice starts TLS, logs in
//! and asks for the status of a mailbox. Read talk first, then session.rs.

mod session;

use common::config::Config;
use common::peer::{converse, Error, Peer, Protocol, Result};
use common::{bounds, Findings};
use prober::digest::to_base64;
use prober::Request;
use session::{Greeting, Session};
use std::time::Instant;

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "IMAP", tls_first: true };

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    common::validate_mail(&Config::of(&request), &["mailbox", "messages", "unseen"])
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let mut session = Session::new(peer);
    let Greeting { text, logged_in } = session.greeting()?;
    session.peer.findings.metric("greeting_seconds", "s", start.elapsed().as_secs_f64());
    if logged_in && (session.peer.config.flag("startTLS") || session.peer.config.get("username").is_some()) {
        return Err(Error::Refused("the greeting is PREAUTH, after which neither STARTTLS nor a login is possible".into()));
    }
    let mut offer = session.capabilities()?;
    if session.peer.config.flag("startTLS") {
        if !has(&offer, "STARTTLS") {
            return Err(Error::Tls("the server does not offer STARTTLS".into()));
        }
        session.ask("STARTTLS", "STARTTLS")?;
        session.peer.start_tls()?;
        offer = session.capabilities()?;
    }
    let mut success = text;
    if session.peer.config.get("username").is_some() {
        let start = Instant::now();
        log_in(&mut session, &offer)?;
        session.peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
        if session.peer.config.get("capabilities").is_some() {
            offer.extend(session.capabilities()?); // servers offer more after a login
        }
        success = format!("{}{}", success, check_mailbox(&mut session)?);
    }
    for name in session.peer.config.texts("capabilities") {
        if !has(&offer, &name) {
            session.peer.findings.fail_for("body", format!("the server does not offer {}", name));
        }
    }
    let _ = session.ask("LOGOUT", "LOGOUT"); // servers may close the connection at once
    Ok(success)
}

fn has(offer: &[String], name: &str) -> bool {
    offer.iter().any(|o| o.eq_ignore_ascii_case(name))
}

/// Logs in by AUTHENTICATE PLAIN, or by LOGIN if the server does not offer that.
fn log_in(session: &mut Session, offer: &[String]) -> Result<()> {
    let (username, password) = (session.peer.config.text("username"), session.peer.config.text("password"));
    if has(offer, "AUTH=PLAIN") {
        let proof = to_base64(format!("\0{}\0{}", username, password).as_bytes());
        if has(offer, "SASL-IR") {
            session.ask(&format!("AUTHENTICATE PLAIN {}", proof), "the login")?;
        } else {
            session.ask_in_two("AUTHENTICATE PLAIN", &proof, "the login")?;
        }
        return Ok(());
    }
    if has(offer, "LOGINDISABLED") {
        return Err(Error::Refused("the server offers neither AUTH=PLAIN nor LOGIN".into()));
    }
    match (quoted(&username), quoted(&password)) {
        (Some(username), Some(password)) => session.ask(&format!("LOGIN {} {}", username, password), "the login").map(|_| ()),
        _ => Err(Error::Refused("a username or password beyond ASCII needs AUTH=PLAIN, which the server does not offer".into())),
    }
}

/// Returns a string as IMAP quotes it. None if it has other characters than printable ones of ASCII.
fn quoted(text: &str) -> Option<String> {
    let plain = text.bytes().all(|b| (b' '..=b'~').contains(&b));
    plain.then(|| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Checks the bounds of a mailbox, by default INBOX if there are bounds. Returns text for the message of a Success.
fn check_mailbox(session: &mut Session) -> Result<String> {
    let config = session.peer.config;
    let mut name = config.text("mailbox");
    if name.is_empty() {
        if config.get("messages").is_none() && config.get("unseen").is_none() {
            return Ok(String::new());
        }
        name = "INBOX".into();
    }
    let (messages, unseen) = session.status(&quoted(&name).unwrap_or_default())?;
    let findings: &mut Findings = &mut session.peer.findings;
    findings.metric("mailbox_messages", "", messages as f64);
    findings.metric("mailbox_unseen", "", unseen as f64);
    bounds::check(findings, config, "messages", &format!("the number of messages in {}", name), &messages.to_string());
    bounds::check(findings, config, "unseen", &format!("the number of unseen messages in {}", name), &unseen.to_string());
    Ok(format!("; {} has {} messages, {} unseen", name, messages, unseen))
}
