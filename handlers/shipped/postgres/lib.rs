//! The plugin postgres: logs in to a PostgreSQL server, and checks its role, the lag of its replication and
//! the answer to a query. Read talk first.

use common::config::Config;
use common::peer::{converse, Error, Peer, Protocol, Result};
use common::query;
use prober::Request;
use std::time::{Duration, Instant};

mod wire;

use wire::{Credentials, Login};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "PostgreSQL", tls_first: false };

/// Selects whether the server is a standby, and its lag in seconds, which is 0 if everything is replayed. A standby
/// that has replayed nothing since its start is behind since then. The last column is whether a standby has received
/// from its primary, and does not any more: what it lacks is not known then.
const REPLICATION: &str = "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn() \
    THEN extract(epoch FROM now() - coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time())) ELSE 0 END, \
    pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)";

/// The fields that need a login.
const NEED_LOGIN: [&str; 3] = ["query", "role", "lag"];

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_strings(&config, &["username", "password", "database", "query"])?;
    query::validate(&config)?;
    common::validate_bounds(&config, "lag")?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let secure = peer.config.flag("tls");
    if secure {
        wire::start_tls(peer)?;
    }
    let c = credentials(peer.config, secure);
    let version = match wire::log_in(peer, &c)? {
        Login::Ready(version) => version,
        Login::Wanted(method) => return without_login(peer.config, &method),
    };
    peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    let mut said = format!("PostgreSQL {} answers", version);
    if peer.config.get("role").is_some() || peer.config.get("lag").is_some() {
        said = check_replication(peer, said)?;
    }
    if peer.config.get("query").is_some() {
        said = format!("{}; the query: {}", said, check_query(peer)?);
    }
    wire::end(peer);
    Ok(said)
}

fn credentials(config: &Config, secure: bool) -> Credentials {
    let or_postgres = |name: &str| Some(config.text(name)).filter(|t| !t.is_empty()).unwrap_or_else(|| "postgres".into());
    Credentials { user: or_postgres("username"), database: or_postgres("database"), password: config.get("password").map(|_| config.text("password")), secure }
}

/// Returns the outcome where the server asks for a password that is not set.
fn without_login(config: &Config, method: &str) -> Result<String> {
    match NEED_LOGIN.iter().find(|name| config.get(name).is_some()) {
        None => Ok(format!("takes connections, and asks for a login by {}", method)),
        Some(name) => Err(Error::Refused(format!("{} needs a password: the server asks for a login by {}", name, method))),
    }
}

fn check_replication(peer: &mut Peer, said: String) -> Result<String> {
    let answer = wire::query(peer, "the query of the replication", REPLICATION)?;
    let value = |i: usize| answer.first.get(i).cloned().flatten().unwrap_or_default();
    let role = if value(0) == "t" { "standby" } else { "primary" };
    let want = peer.config.text("role");
    if !want.is_empty() && want != role {
        peer.findings.fail_for("body", format!("the role is {}, want {}", role, want));
    }
    if role == "primary" {
        return Ok(said + ", a primary");
    }
    if value(2) == "t" {
        return Err(Error::Refused("the standby receives nothing from its primary: the WAL receiver does not run".into()));
    }
    let lag = value(1).parse::<f64>().ok().filter(|n| (0.0..1e9).contains(n)).unwrap_or_default();
    peer.findings.metric("replication_lag_seconds", "s", lag);
    let behind = format!("{:.1} s behind", lag);
    common::check_bound(&mut peer.findings, peer.config, "lag", Duration::from_secs_f64(lag), |limit| format!("the standby is {}, more than {}", behind, limit));
    Ok(format!("{}, a standby, {}", said, behind))
}

fn check_query(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let answer = wire::query(peer, "the query", &peer.config.text("query")).map_err(|e| e.during("the query"))?;
    peer.findings.metric("query_seconds", "s", start.elapsed().as_secs_f64());
    let value = answer.first.first().cloned().flatten();
    query::check(&mut peer.findings, peer.config, value.as_deref(), answer.rows);
    Ok(query::summary(value.as_deref(), answer.rows))
}
