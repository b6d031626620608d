//! The plugin memcached: logs in, reads the statistics of a memcached server, and gets or stores a value. Read talk
//! first.

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use common::{bounds, validate_limits};
use prober::Request;
use std::time::Instant;

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "memcached", tls_first: true };

/// The most lines of statistics.
const MAX_LINES: usize = 1000;

/// How long a value of roundTrip is stored, in seconds.
const LIFE: u32 = 60;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_login(&config, &[])?;
    if config.text("username").contains([' ', '\r', '\n'].as_slice()) {
        return Err("username: must not have spaces".into());
    }
    for name in ["key", "roundTrip"] {
        if config.get(name).is_some() && !is_key(&config.text(name)) {
            return Err(format!("{}: must have 1 to 250 bytes without spaces and control characters", name).into());
        }
    }
    if config.get("value").is_some() && config.get("key").is_none() {
        return Err("value: needs a key".into());
    }
    validate_limits(&config)
}

fn is_key(key: &str) -> bool {
    (1..=250).contains(&key.len()) && !key.bytes().any(|b| b <= b' ' || b == 0x7f)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    log_in(peer)?;
    let mut said = match peer.config.get("stats") {
        Some("false") => version(peer)?,
        _ => statistics(peer)?,
    };
    let (key, own) = (peer.config.text("key"), peer.config.text("roundTrip"));
    if !key.is_empty() {
        let value = get(peer, &key)?.ok_or_else(|| Error::Refused(format!("the key {:?} is not stored", key)))?;
        let value = String::from_utf8_lossy(&value);
        bounds::check(&mut peer.findings, peer.config, "value", "the value", &value);
        said += &format!("; the value is {:?}", shown(value.as_bytes()));
    }
    if !own.is_empty() {
        round_trip(peer, &own)?;
        said += &format!("; a value of {:?} came back", own);
    }
    Ok(said)
}

/// Logs in as the text protocol does: by a value that is stored under any key.
fn log_in(peer: &mut Peer) -> Result<()> {
    if peer.config.get("password").is_none() {
        return Ok(());
    }
    let login = format!("{} {}", peer.config.text("username"), peer.config.text("password"));
    store(peer, "the login", "prober", 0, &login)
}

/// Stores a value. name is the name of the command in messages.
fn store(peer: &mut Peer, name: &str, key: &str, life: u32, value: &str) -> Result<()> {
    command(peer, name, &format!("set {} 0 {} {}\r\n{}\r\n", key, life, value.len(), value))?;
    match reply(peer, name)?.as_str() {
        "STORED" => Ok(()),
        line => Err(unexpected(peer, line)),
    }
}

fn command(peer: &mut Peer, name: &str, text: &str) -> Result<()> {
    peer.awaits(name);
    peer.send(text.as_bytes())
}

/// Returns the next line of the answer to a command. One that reports an error is a refusal.
fn reply(peer: &mut Peer, name: &str) -> Result<String> {
    let line = peer.line()?;
    match line.split(' ').next() {
        Some("ERROR" | "CLIENT_ERROR" | "SERVER_ERROR") => Err(Error::Refused(format!("{}: {}", name, shown(line.as_bytes())))),
        _ => Ok(line),
    }
}

fn unexpected(peer: &Peer, line: &str) -> Error {
    peer.protocol(format!("it sent {:?}", shown(line.as_bytes())))
}

fn version(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    command(peer, "version", "version\r\n")?;
    let line = reply(peer, "version")?;
    let version = line.strip_prefix("VERSION ").ok_or_else(|| unexpected(peer, &line))?;
    peer.findings.metric("version_seconds", "s", start.elapsed().as_secs_f64());
    Ok(format!("memcached {} answers", shown(version.as_bytes())))
}

/// Returns the value of a key, or None if it is not stored.
fn get(peer: &mut Peer, key: &str) -> Result<Option<Vec<u8>>> {
    command(peer, "get", &format!("get {}\r\n", key))?;
    let line = reply(peer, "get")?;
    let words: Vec<&str> = line.split(' ').collect();
    let size = match words.as_slice() {
        ["END"] => return Ok(None),
        ["VALUE", name, _, size] if *name == key => size.parse().map_err(|_| unexpected(peer, &line))?,
        _ => return Err(unexpected(peer, &line)),
    };
    let value = peer.exact(size)?;
    for want in ["", "END"] {
        let line = peer.line()?;
        if line != want {
            return Err(unexpected(peer, &line));
        }
    }
    Ok(Some(value))
}

/// Stores a random value, and reads it.
fn round_trip(peer: &mut Peer, key: &str) -> Result<()> {
    let mut random = [0; 8];
    prober::random(&mut random)?;
    let value = format!("prober {:016x}", u64::from_be_bytes(random));
    let start = Instant::now();
    store(peer, "set", key, LIFE, &value)?;
    match get(peer, key)? {
        Some(got) if got == value.as_bytes() => {}
        Some(_) => return Err(Error::Refused(format!("{:?} has another value than the one that was stored", key))),
        None => return Err(Error::Refused(format!("the stored value of {:?} did not come back", key))),
    }
    peer.findings.metric("roundtrip_seconds", "s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The statistics that are used.
#[derive(Default)]
struct Statistics {
    version: String,
    uptime: Option<f64>,
    bytes: Option<f64>,
    limit: Option<f64>,
    connections: Option<f64>,
    most_connections: Option<f64>,
    items: Option<f64>,
    evictions: Option<f64>,
    hits: Option<f64>,
    misses: Option<f64>,
}

impl Statistics {
    fn note(&mut self, name: &str, value: &str) {
        let field = match name {
            "version" => {
                self.version = shown(value.as_bytes());
                return;
            }
            "uptime" => &mut self.uptime,
            "bytes" => &mut self.bytes,
            "limit_maxbytes" => &mut self.limit,
            "curr_connections" => &mut self.connections,
            "max_connections" => &mut self.most_connections,
            "curr_items" => &mut self.items,
            "evictions" => &mut self.evictions,
            "get_hits" => &mut self.hits,
            "get_misses" => &mut self.misses,
            _ => return,
        };
        *field = value.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
    }

    /// Returns the message of a Success.
    fn summary(&self, memory: Option<f64>) -> String {
        let mut said = format!("memcached {}", self.version).trim_end().to_string();
        for (value, before, after) in [(self.uptime, "up for ", " s"), (self.items, "", " items")] {
            if let Some(value) = value {
                said += &format!(", {}{}{}", before, value, after);
            }
        }
        if let Some(memory) = memory {
            said += &format!(", {:.1} % of the memory in use", memory * 100.0);
        }
        said
    }
}

/// Reads the lines "STAT name value" until "END".
fn statistics(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let mut found = Statistics::default();
    command(peer, "stats", "stats\r\n")?;
    for n in 0.. {
        let line = reply(peer, "stats")?;
        if n == MAX_LINES {
            return Err(peer.protocol(format!("more than {} lines of statistics", MAX_LINES)));
        }
        match (line.as_str(), line.strip_prefix("STAT ").and_then(|rest| rest.split_once(' '))) {
            (_, Some((name, value))) => found.note(name, value),
            ("END", _) if n > 0 => break,
            ("END", _) => return Err(Error::Refused("stats: the server has no statistics".into())),
            _ => return Err(unexpected(peer, &line)),
        }
    }
    peer.findings.metric("stats_seconds", "s", start.elapsed().as_secs_f64());
    Ok(check(peer, &found))
}

/// Checks the statistics, and adds their metrics. It returns the message of a Success.
fn check(peer: &mut Peer, found: &Statistics) -> String {
    let lookups = found.hits.and_then(|hits| found.misses.map(|misses| hits + misses));
    let memory = ratio(found.bytes, found.limit);
    let connections = ratio(found.connections, found.most_connections);
    for (name, unit, value) in [
        ("uptime_seconds", "s", found.uptime),
        ("items", "", found.items),
        ("evictions", "", found.evictions),
        ("hit_ratio", "", ratio(found.hits, lookups)),
        ("memory_used_ratio", "", memory),
        ("connections_used_ratio", "", connections),
    ] {
        if let Some(value) = value {
            peer.findings.metric(name, unit, value);
        }
    }
    for (field, what, value) in [
        ("connectionsPercent", "the percentage of connections in use", connections),
        ("memoryPercent", "the percentage of memory in use", memory),
    ] {
        if let Some(value) = value {
            bounds::check(&mut peer.findings, peer.config, field, what, &format!("{:.1}", value * 100.0));
        }
    }
    found.summary(memory)
}

fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    whole.filter(|w| *w > 0.0).and_then(|w| part.map(|p| p / w))
}
