//! The plugin redis: logs in, sends PING, and checks the role of the server and the lag of its replication.

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result, MAX_MESSAGE};
use common::Findings;
use prober::Request;
use std::time::{Duration, Instant};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "redis", tls_first: true };

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if config.get("username").is_some() && config.get("password").is_none() {
        return Err("username: needs a password".into());
    }
    common::validate_bounds(&config, "lag")?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    log_in(peer)?;
    let database = peer.config.number("database").unwrap_or_default();
    if database > 0.0 {
        command(peer, "SELECT", &["SELECT", &database.to_string()])?;
    }
    let start = Instant::now();
    let pong = command(peer, "PING", &["PING"])?;
    if pong != "PONG" {
        return Err(Error::Refused(format!("PING: got {:?}, want PONG", shown(pong.as_bytes()))));
    }
    peer.findings.metric("ping_seconds", "s", start.elapsed().as_secs_f64());
    if !wants_replication(peer.config) {
        return Ok("PONG".into());
    }
    let info = command(peer, "INFO replication", &["INFO", "replication"])?;
    replication(peer, &info)
}

/// Reports whether a field of the config is about the replication.
fn wants_replication(config: &Config) -> bool {
    config.flag("replication") || ["role", "minReplicas", "lag"].iter().any(|name| config.get(name).is_some())
}

fn log_in(peer: &mut Peer) -> Result<()> {
    if peer.config.get("password").is_none() {
        return Ok(());
    }
    let (username, password) = (peer.config.text("username"), peer.config.text("password"));
    let mut words = vec!["AUTH"];
    if !username.is_empty() {
        words.push(&username);
    }
    words.push(&password);
    command(peer, "AUTH", &words).map(|_| ())
}

/// Sends a command, and returns its reply. name is its name in messages.
fn command(peer: &mut Peer, name: &str, words: &[&str]) -> Result<String> {
    let mut data = format!("*{}\r\n", words.len());
    for word in words {
        data += &format!("${}\r\n{}\r\n", word.len(), word);
    }
    peer.awaits(name);
    peer.send(data.as_bytes()).and_then(|_| reply(peer)).map_err(|e| e.during(name))
}

/// Reads a simple string, a bulk string or an error.
fn reply(peer: &mut Peer) -> Result<String> {
    let line = peer.line()?;
    let mut chars = line.chars();
    let (kind, rest) = (chars.next(), chars.as_str());
    match (kind, rest.parse::<usize>()) {
        (Some('+'), _) => Ok(rest.into()),
        (Some('-'), _) => Err(Error::Refused(shown(rest.as_bytes()))),
        (Some('$'), Ok(n)) if n <= MAX_MESSAGE => {
            let text = peer.exact(n)?;
            if !peer.line()?.is_empty() {
                return Err(peer.protocol("a string is longer than announced"));
            }
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        _ => Err(peer.protocol(format!("it sent {:?}", shown(line.as_bytes())))),
    }
}

/// Checks the answer to INFO replication.
fn replication(peer: &mut Peer, info: &str) -> Result<String> {
    let role = field(info, "role");
    let role = if role == "slave" { "replica" } else { role };
    if !matches!(role, "master" | "replica") {
        return Err(Error::Refused(format!("INFO replication: unknown role {:?}", shown(role.as_bytes()))));
    }
    let want = peer.config.text("role");
    if !want.is_empty() && want != role {
        peer.findings.fail_for("body", format!("the role is {}, want {}", role, want));
    }
    if role == "replica" {
        return replica(peer, info);
    }
    let lags: Vec<f64> = (0..).map_while(|i: usize| line_of(info, i)).filter_map(lag_of).collect();
    let replicas = lags.len() as f64;
    peer.findings.metric("connected_replicas", "", replicas);
    let least = peer.config.number("minReplicas").unwrap_or_default();
    if replicas < least {
        peer.findings.fail_for("body", format!("{} replicas are connected, want at least {}", replicas, least));
    }
    let lag = lags.into_iter().fold(0.0, f64::max);
    check_lag(&mut peer.findings, peer.config, lag, "a replica is");
    Ok(format!("PONG from a master with {} {}", replicas, if replicas == 1.0 { "replica" } else { "replicas" }))
}

fn replica(peer: &mut Peer, info: &str) -> Result<String> {
    let status = field(info, "master_link_status");
    if status != "up" {
        let master = format!("{}:{}", field(info, "master_host"), field(info, "master_port"));
        return Err(Error::Refused(format!("the link to the master {} is {}", shown(master.as_bytes()), shown(status.as_bytes()))));
    }
    let lag = seconds(field(info, "master_last_io_seconds_ago"));
    check_lag(&mut peer.findings, peer.config, lag, "the replica is");
    Ok(format!("PONG from a replica, {} s behind the master", lag))
}

fn check_lag(findings: &mut Findings, config: &Config, lag: f64, who: &str) {
    findings.metric("replication_lag_seconds", "s", lag);
    common::check_bound(findings, config, "lag", Duration::from_secs_f64(lag), |limit| format!("{} {} s behind, more than {}", who, lag, limit));
}

/// Returns the value of a field of INFO, or "".
fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.lines().find_map(value).unwrap_or_default().trim()
}

/// Returns the line of a replica, such as "ip=10.0.0.8,port=6379,state=online,offset=1,lag=0".
fn line_of(info: &str, i: usize) -> Option<&str> {
    Some(field(info, &format!("slave{}", i))).filter(|line| !line.is_empty())
}

/// Returns the lag of the line of a replica; None for one that is not online, as during a synchronization.
fn lag_of(line: &str) -> Option<f64> {
    line.split(',').find(|f| *f == "state=online")?;
    Some(line.split(',').find_map(|f| f.strip_prefix("lag=")).map_or(0.0, seconds))
}

/// Returns a number of seconds; redis reports -1 if it does not know it.
fn seconds(text: &str) -> f64 {
    text.parse::<u32>().map_or(0.0, f64::from)
}
