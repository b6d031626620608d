//! Mysql reads the greeting of a MySQL or MariaDB server, logs in and pings it. A server
//! that refuses is a Failure. Optionally it checks the lag of a replica and the number of
//! connections in use.

mod login;
mod wire;

use login::{Credentials, Login};
use prober::{config, json, log, net, Level, Outcome, Request};
use std::time::{Duration, Instant};
use wire::{Error, Session};

prober::plugin!(probe, validate);

/// The error numbers of the server for a rejected user.
const ACCESS_DENIED: [u16; 3] = [1044, 1045, 1698];
const SYNTAX_ERROR: u16 = 1064;

struct Config {
    credentials: Credentials,
    /// The TLS options as JSON; None without TLS.
    tls: Option<String>,
    max_lag: Option<Duration>,
    max_connections: Option<f64>,
}

impl Config {
    fn read() -> prober::Result<Config> {
        let credentials = Credentials {
            user: config::string("user", "")?,
            password: config::string("password", "")?,
            database: config::string("database", "")?,
        };
        let mut options = Vec::new();
        for name in ["serverName", "verify", "ca"] {
            options.extend(config::get(name)?.map(|text| (name, json::quote(&text))));
        }
        let max_lag = match config::get("maxLag")? {
            Some(_) => Some(config::duration("maxLag", Duration::default())?),
            None => None,
        };
        let max_connections = match config::get("maxConnections")? {
            Some(_) => Some(config::value("maxConnections", 0.0)?),
            None => None,
        };
        let tls = config::value("tls", false)?.then(|| json::object(options));
        Ok(Config { credentials, tls, max_lag, max_connections })
    }

    fn has_user(&self) -> bool {
        !self.credentials.user.is_empty()
    }
}

fn validate() -> prober::Result<()> {
    let c = Config::read()?;
    let logins = [&c.credentials.user, &c.credentials.password, &c.credentials.database];
    if logins.iter().any(|text| text.contains('\0')) {
        return Err("config: a zero byte is in the user, the password or the database".into());
    }
    if !c.has_user() && (logins.iter().any(|text| !text.is_empty()) || c.max_lag.is_some() || c.max_connections.is_some()) {
        return Err("config: only with a user may there be a password, a database, maxLag or maxConnections".into());
    }
    Ok(())
}

fn probe(_: &Request) -> prober::Result {
    let c = Config::read()?;
    Ok(ask(&c).unwrap_or_else(Outcome::failure))
}

fn ask(c: &Config) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let conn = net::dial_target()?;
    let connected = begun.elapsed();
    let mut session = Session::new(conn)?;
    let greeted = begun.elapsed();
    let out = greet(&mut session, c)?;
    if let Err(e) = session.end() {
        log(Level::Debug, format!("the end: {}", e));
    }
    let out = out.metric("connect_seconds", "s", connected.as_secs_f64());
    Ok(out.metric("greeting_seconds", "s", greeted.as_secs_f64()))
}

/// Logs in, and makes the checks of the config.
fn greet(s: &mut Session, c: &Config) -> Result<Outcome, Error> {
    let product = product(&s.greeting.version);
    if let Some(options) = &c.tls {
        if !s.offers(wire::SSL) {
            return Ok(Outcome::failure(format!("{} does not offer TLS", product)));
        }
        let hello = login::hello(s, &c.credentials, true);
        s.start_tls(&hello, options)?;
    }
    match login::log_in(s, &c.credentials, c.tls.is_some()) {
        Ok(Login::Ready) => {}
        Ok(Login::Wanted(_)) if !c.has_user() => return Ok(Outcome::success(format!("{} takes connections", product))),
        Ok(Login::Wanted(method)) => {
            return Ok(Outcome::warning(format!("{} takes connections, and asks for a login by {}", product, method)));
        }
        // A user that does not exist is rejected, which is enough. The server would block a
        // client that closes the connection after the greeting: see max_connect_errors.
        Err(Error::Server { code, .. }) if !c.has_user() && ACCESS_DENIED.contains(&code) => {
            return Ok(Outcome::success(format!("{} takes connections", product)));
        }
        Err(e) => return Err(e),
    }
    let begun = Instant::now();
    s.ping()?;
    let ping = begun.elapsed().as_secs_f64();
    let mut out = replication(s, c, &product)?;
    if let Some(max) = c.max_connections {
        out = connections(s, max, out)?;
    }
    Ok(out.metric("ping_seconds", "s", ping))
}

fn replication(s: &mut Session, c: &Config, product: &str) -> Result<Outcome, Error> {
    let max = match c.max_lag {
        Some(max) => max.as_secs_f64(),
        None => return Ok(Outcome::success(format!("{} answers", product))),
    };
    let status = match s.query("SHOW REPLICA STATUS") {
        // Servers before MariaDB 10.5 and MySQL 8.0.22 know only the old name.
        Err(Error::Server { code: SYNTAX_ERROR, .. }) => s.query("SHOW SLAVE STATUS")?,
        status => status?,
    };
    if status.is_empty() {
        return Ok(Outcome::success(format!("{}, no replica, answers", product)));
    }
    let lag = status.get("Seconds_Behind_Master").or_else(|| status.get("Seconds_Behind_Source"));
    let lag: f64 = match lag.and_then(|text| text.parse().ok()) {
        Some(lag) => lag,
        None => {
            let why = ["Last_IO_Error", "Last_SQL_Error"].iter().find_map(|name| status.get(name).filter(|text| !text.is_empty()));
            return Ok(Outcome::failure(format!("the replication does not run: {}", why.unwrap_or("it is stopped"))));
        }
    };
    let out = match lag > max {
        true => Outcome::warning(format!("the replica is {} s behind, above {:?}", lag, Duration::from_secs_f64(max))),
        false => Outcome::success(format!("{}, a replica, answers; {} s behind", product, lag)),
    };
    Ok(out.metric("replication_lag_seconds", "s", lag))
}

/// Turns a Success into a Warning if more than max per cent of the connections are in use.
fn connections(s: &mut Session, max: f64, mut out: Outcome) -> Result<Outcome, Error> {
    let used = s.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")?;
    let limit = s.query("SELECT @@GLOBAL.max_connections")?;
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<f64>().ok());
    let ratio = match (number(used.at(1)), number(limit.at(0))) {
        (Some(used), Some(limit)) if limit > 0.0 => used / limit,
        _ => return Err(Error::Protocol("no number of connections".into())),
    };
    if ratio * 100.0 > max && out.verdict == prober::Verdict::Success {
        out.verdict = prober::Verdict::Warning;
        out.message = format!("{:.1}% of the connections are in use, above {:.1}%", ratio * 100.0, max);
    }
    Ok(out.metric("connections_used_ratio", "", ratio))
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
