//! The plugin mysql: logs in to a MySQL or MariaDB server, sends a ping, and checks its replication and the
//! answer to a query. Read talk first.

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use common::query;
use prober::Request;
use std::time::{Duration, Instant};

mod login;
mod wire;

use login::Credentials;
use wire::{ServerError, Session, Table, SSL};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "MySQL", tls_first: false };

/// The error that a server before REPLICA STATUS returns.
const SYNTAX_ERROR: u16 = 1064;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if ["username", "password", "database"].iter().any(|name| config.text(name).contains('\0')) {
        return Err("a zero byte is in username, password or database".into());
    }
    if let Some(name) = ["password", "database", "query", "role", "lag"].iter().find(|name| config.get(name).is_some()) {
        if config.get("username").is_none() {
            return Err(format!("{}: needs a username", name).into());
        }
    }
    query::validate(&config)?;
    common::validate_bounds(&config, "lag")?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let mut s = Session::new(peer)?;
    let said = exchange(&mut s, start);
    s.end(); // else the server counts an aborted connection
    said
}

/// Logs in, and makes all checks. start is when the greeting was awaited.
fn exchange(s: &mut Session, start: Instant) -> Result<String> {
    let config = s.peer.config;
    let text = |name: &str| config.text(name);
    let c = Credentials { username: text("username"), password: text("password"), database: text("database"), secure: config.flag("tls") };
    let product = product(&s.greeting.version);
    if c.secure {
        if !s.offers(SSL) {
            return Err(Error::Tls(format!("{} does not offer TLS", product)));
        }
        let hello = login::hello(s, &c);
        s.start_tls(&hello)?;
    }
    match login::log_in(s, &c) {
        // Without a user, any answer shows that the server takes connections.
        Err(Error::Refused(_)) if c.username.is_empty() => return Ok(format!("{} takes connections", product)),
        other => other?,
    }
    s.peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    s.ping()?;
    s.peer.findings.metric("ping_seconds", "s", start.elapsed().as_secs_f64());
    let mut said = format!("{} answers", product);
    if config.get("role").is_some() || config.get("lag").is_some() {
        said = check_replication(s, said)?;
    }
    if config.get("query").is_some() {
        said = format!("{}; the query: {}", said, check_query(s)?);
    }
    Ok(said)
}

fn refused(e: ServerError) -> Error {
    Error::Refused(format!("{} ({})", e.text, e.code))
}

/// Checks the role and the lag. A server with a replication that does not run is a Failure.
fn check_replication(s: &mut Session, said: String) -> Result<String> {
    let status = match s.query("SHOW REPLICA STATUS")? {
        // MariaDB before 10.5 and MySQL before 8.0.22 know only the old name.
        Err(e) if e.code == SYNTAX_ERROR => s.query("SHOW SLAVE STATUS")?,
        status => status,
    };
    let status = status.map_err(refused)?;
    let role = if status.rows == 0 { "source" } else { "replica" };
    let want = s.peer.config.text("role");
    if !want.is_empty() && want != role {
        s.peer.findings.fail_for("body", format!("the role is {}, want {}", role, want));
    }
    if role == "source" {
        return Ok(said + ", no replica");
    }
    let lag = lag_of(&status)?;
    s.peer.findings.metric("replication_lag_seconds", "s", lag);
    let config = s.peer.config;
    common::check_bound(&mut s.peer.findings, config, "lag", Duration::from_secs_f64(lag), |limit| format!("the replica is {} s behind, more than {}", lag, limit));
    Ok(format!("{}, a replica, {} s behind", said, lag))
}

fn lag_of(status: &Table) -> Result<f64> {
    let lag = status.get("Seconds_Behind_Master").or_else(|| status.get("Seconds_Behind_Source"));
    match lag.and_then(|text| text.parse::<u32>().ok()) {
        Some(lag) => Ok(lag.into()),
        None => {
            let why = ["Last_IO_Error", "Last_SQL_Error"].iter().find_map(|name| status.get(name).filter(|text| !text.is_empty()));
            Err(Error::Refused(format!("the replication does not run: {}", shown(why.unwrap_or("it is stopped").as_bytes()))))
        }
    }
}

fn check_query(s: &mut Session) -> Result<String> {
    let start = Instant::now();
    let answer = s.query(&s.peer.config.text("query")).and_then(|answer| answer.map_err(refused)).map_err(|e| e.during("the query"))?;
    s.peer.findings.metric("query_seconds", "s", start.elapsed().as_secs_f64());
    let config = s.peer.config;
    query::check(&mut s.peer.findings, config, answer.value(0), answer.rows);
    Ok(query::summary(answer.value(0), answer.rows))
}

/// Returns "MariaDB 10.11.6" for "5.5.5-10.11.6-MariaDB-0+deb12u1".
fn product(version: &str) -> String {
    let version: String = version.chars().filter(|c| !c.is_control()).take(60).collect();
    let number = version.strip_prefix("5.5.5-").unwrap_or(&version);
    let number = number.split('-').next().unwrap_or_default();
    match version.contains("MariaDB") {
        true => format!("MariaDB {}", number),
        false => format!("MySQL {}", number),
    }
}
