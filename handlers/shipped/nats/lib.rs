//! The plugin nats: connects to a NATS server as a client does, and waits for the PONG to its PING. Read talk first.

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use common::validate_limits;
use prober::{json, Request};
use std::time::Instant;

prober::plugin!(probe, validate);

/// TLS begins after the first line of the server, unless handshakeFirst is set.
const PROTOCOL: Protocol = Protocol { name: "NATS", tls_first: false };

/// The most lines until a PONG or a message.
const MAX_LINES: usize = 100;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_login(&config, &[])?;
    if config.get("token").is_some() && config.get("username").is_some() {
        return Err("token: cannot be used with a username".into());
    }
    if config.get("roundTrip").is_some() && !is_subject(&config.text("roundTrip")) {
        return Err(format!("roundTrip: {:?} is not a subject", config.text("roundTrip")).into());
    }
    validate_limits(&config)
}

/// Reports whether a text names one subject, without wildcards.
fn is_subject(text: &str) -> bool {
    let is_token = |t: &str| !t.is_empty() && t != "*" && t != ">";
    text.split('.').all(is_token) && !text.bytes().any(|b| b <= b' ' || b == 0x7f)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let first = peer.config.flag("handshakeFirst");
    if first {
        peer.start_tls()?;
    }
    let mut info = greeting(peer)?;
    let secured = first || peer.config.flag("tls") || info.tls_required;
    if secured && !first {
        if !info.tls_required && !info.tls_available {
            return Err(Error::Tls(format!("{} does not offer TLS", info.name)));
        }
        peer.start_tls()?;
    }
    log_in(peer, secured, &mut info)?;
    if let Some(most) = info.max_payload {
        peer.findings.metric("max_payload_bytes", "bytes", most);
    }
    let mut said = format!("{} answers", info);
    let subject = peer.config.text("roundTrip");
    if !subject.is_empty() {
        round_trip(peer, &subject, &mut info)?;
        said += &format!("; a message to {:?} came back", subject);
    }
    check(peer, &info);
    Ok(said)
}

/// What a server says about itself.
struct Info {
    name: String,
    version: String,
    max_payload: Option<f64>,
    tls_required: bool,
    tls_available: bool,
    jetstream: bool,
    lame_duck: bool,
}

impl Info {
    /// Parses a line such as `INFO {"server_name":"alpha"}`.
    fn parse(line: &str) -> Option<Info> {
        let doc = Config(line.strip_prefix("INFO ")?.trim());
        if !doc.0.starts_with('{') || !doc.0.ends_with('}') {
            return None;
        }
        let text = |name: &str| shown(doc.text(name).as_bytes());
        Some(Info {
            name: Some(text("server_name")).filter(|n| !n.is_empty()).unwrap_or_else(|| "the server".into()),
            version: text("version"),
            max_payload: doc.number("max_payload").filter(|n| n.is_finite()),
            tls_required: doc.flag("tls_required"),
            tls_available: doc.flag("tls_available"),
            jetstream: doc.flag("jetstream"),
            lame_duck: doc.flag("ldm"),
        })
    }
}

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.version.as_str() {
            "" => f.write_str(&self.name),
            version => write!(f, "{}, NATS {},", self.name, version),
        }
    }
}

/// Reads the first line of the server, which may be an error.
fn greeting(peer: &mut Peer) -> Result<Info> {
    peer.awaits_greeting();
    let line = peer.line()?;
    refusal(&line).map_or(Ok(()), Err)?;
    Info::parse(&line).ok_or_else(|| unexpected(peer, &line))
}

/// Returns the error of a line such as "-ERR 'Authorization Violation'".
fn refusal(line: &str) -> Option<Error> {
    let why = shown(line.strip_prefix("-ERR")?.as_bytes());
    Some(Error::Refused(format!("the server refuses: {}", if why.is_empty() { "-ERR" } else { why.trim_matches('\'') })))
}

fn unexpected(peer: &Peer, line: &str) -> Error {
    peer.protocol(format!("it sent {:?}", shown(line.as_bytes())))
}

/// Returns the next line, or None after one that needs nothing more: a PING, which it answers, an INFO or an OK.
fn line(peer: &mut Peer, info: &mut Info) -> Result<Option<String>> {
    let line = peer.line()?;
    refusal(&line).map_or(Ok(()), Err)?;
    if line == "PING" {
        peer.send(b"PONG\r\n")?;
    } else if let Some(new) = Info::parse(&line) {
        *info = new;
    } else if line != "+OK" {
        return Ok(Some(line));
    }
    Ok(None)
}

/// Logs in and waits for the PONG to a PING, until which the server reports a refusal.
fn log_in(peer: &mut Peer, secured: bool, info: &mut Info) -> Result<()> {
    let mut fields = vec![("name", json::quote("prober")), ("lang", json::quote("rust")), ("version", json::quote("0.1.0"))];
    for (name, field) in [("user", "username"), ("pass", "password"), ("auth_token", "token")] {
        if let Some(value) = peer.config.get(field) {
            fields.push((name, json::quote(&json::text(value))));
        }
    }
    fields.push(("protocol", "1".into()));
    for (name, value) in [("verbose", false), ("pedantic", false), ("tls_required", secured)] {
        fields.push((name, value.to_string()));
    }
    let start = Instant::now();
    peer.awaits("PING");
    // A server that closes the connection may have sent its reason before, which the next read returns.
    let _ = peer.send(format!("CONNECT {}\r\nPING\r\n", json::object(fields)).as_bytes());
    for _ in 0..MAX_LINES {
        match line(peer, info)?.as_deref() {
            Some("PONG") => {
                peer.findings.metric("ping_seconds", "s", start.elapsed().as_secs_f64());
                return Ok(());
            }
            Some(other) => return Err(unexpected(peer, other)),
            None => {}
        }
    }
    Err(peer.protocol(format!("no PONG within {} lines", MAX_LINES)))
}

/// Publishes a message to a subject, and waits until it comes back.
fn round_trip(peer: &mut Peer, subject: &str, info: &mut Info) -> Result<()> {
    let mut random = [0; 8];
    prober::random(&mut random)?;
    let text = format!("prober {:016x}", u64::from_be_bytes(random));
    let start = Instant::now();
    peer.awaits_or(&format!("the message to {:?} did not come back", subject));
    peer.send(format!("SUB {} 1\r\nPUB {} {}\r\n{}\r\n", subject, subject, text.len(), text).as_bytes())?;
    for _ in 0..MAX_LINES {
        let line = match line(peer, info)? {
            Some(line) => line,
            None => continue,
        };
        let size = line.strip_prefix("MSG ").and_then(|rest| rest.rsplit(' ').next()?.parse().ok());
        let payload = peer.exact(size.ok_or_else(|| unexpected(peer, &line))?)?;
        if !peer.line()?.is_empty() {
            return Err(peer.protocol("a message is longer than announced"));
        }
        if payload == text.as_bytes() {
            peer.findings.metric("roundtrip_seconds", "s", start.elapsed().as_secs_f64());
            return Ok(());
        }
    }
    Err(Error::Refused(format!("the message to {:?} did not come back within {} lines", subject, MAX_LINES)))
}

/// Checks what the server said last about itself.
fn check(peer: &mut Peer, info: &Info) {
    if peer.config.flag("jetstream") && !info.jetstream {
        peer.findings.fail_for("body", format!("{} has no JetStream", info));
    }
    let why = format!("{} is in lame duck mode: it is about to shut down", info);
    match peer.config.text("lameDuck").as_str() {
        _ if !info.lame_duck => {}
        "fail" => peer.findings.fail_for("body", why),
        "ignore" => {}
        _ => peer.findings.warn(why),
    }
}
