//! Postgres logs in to a PostgreSQL server and runs SELECT 1. A server that refuses, or that
//! is still starting, is a Failure; a standby that lags is a Warning. A server that asks for
//! a login that this plugin does not implement (MD5, GSSAPI, …) accepts connections.

mod scram;
mod wire;

use prober::{config, deadline, json, log, net, Level, Outcome, Request};
use std::time::Duration;
use wire::{Login, Session};

prober::plugin!(probe, validate);

struct Config {
    user: String,
    database: String,
    password: Option<String>,
    /// The TLS options as JSON; None without TLS.
    tls: Option<String>,
    max_lag: Duration,
}

impl Config {
    fn read() -> prober::Result<Config> {
        let mut options = Vec::new();
        for name in ["serverName", "verify", "ca"] {
            options.extend(config::get(name)?.map(|text| (name, json::quote(&text))));
        }
        Ok(Config {
            user: config::string("user", "postgres")?,
            database: config::string("database", "postgres")?,
            password: config::get("password")?,
            tls: config::value("tls", false)?.then(|| json::object(options)),
            max_lag: config::duration("maxLag", Duration::from_secs(10))?,
        })
    }
}

fn validate() -> prober::Result<()> {
    let c = Config::read()?;
    let password = c.password.unwrap_or_default();
    if [&c.user, &c.database, &password].iter().any(|text| text.contains('\0')) {
        return Err("config: a zero byte is in the user, the database or the password".into());
    }
    Ok(())
}

fn probe(_: &Request) -> prober::Result {
    let c = Config::read()?;
    Ok(ask(&c).unwrap_or_else(|e| {
        let reason = e.reason();
        Outcome::failure(e).reason(reason)
    }))
}

/// Selects the lag of a standby in seconds: 0 on a primary, and if everything is replayed.
const LAG: &str = "SELECT CASE WHEN pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn() \
    THEN coalesce(extract(epoch FROM now() - pg_last_xact_replay_timestamp()), 0) ELSE 0 END, pg_is_in_recovery()";

fn ask(c: &Config) -> Result<Outcome, wire::Error> {
    let begun = deadline();
    let mut session = Session::new(net::dial_target()?);
    if let Some(options) = &c.tls {
        if !session.start_tls(options)? {
            return Ok(Outcome::failure("the server does not offer TLS").reason("tls"));
        }
    }
    match session.log_in(&c.user, &c.database, c.password.as_deref())? {
        Login::Ready => {}
        Login::Wanted(method) => {
            let text = format!("takes connections, and asks for a login by {}", method);
            return Ok(if c.password.is_some() { Outcome::warning(text) } else { Outcome::success(text) });
        }
    }
    let ready = begun.zip(deadline()).map_or(0.0, |(from, to)| (from.saturating_sub(to)).as_secs_f64());
    let one = session.query("SELECT 1")?;
    if one != ["1"] {
        return Ok(Outcome::failure(format!("SELECT 1 answers {:?}", one)).reason("body"));
    }
    let version = session.version.clone();
    let out = judge(&session.query(LAG)?, &version, c.max_lag);
    if let Err(e) = session.end() {
        log(Level::Debug, format!("the end: {}", e));
    }
    Ok(out.metric("ready_seconds", "s", ready))
}

fn judge(lag: &[String], version: &str, max_lag: Duration) -> Outcome {
    let seconds: f64 = lag.first().and_then(|text| text.parse().ok()).unwrap_or_default();
    if lag.get(1).map(String::as_str) != Some("t") {
        return Outcome::success(format!("PostgreSQL {} answers", version));
    }
    let out = if seconds > max_lag.as_secs_f64() {
        Outcome::warning(format!("the standby is {:.1} s behind, above {:?}", seconds, max_lag))
    } else {
        Outcome::success(format!("PostgreSQL {}, a standby, answers; {:.1} s behind", version, seconds))
    };
    out.metric("replication_lag_seconds", "s", seconds)
}
