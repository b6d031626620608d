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
use wire::{Row, ServerError, Session, SSL};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "MySQL", tls_first: false };

/// The error that a server returns for a statement that it does not know.
const SYNTAX_ERROR: u16 = 1064;

/// The statements that list the channels of replication, in the order of attempts. MySQL before 8.0.22 knows only the
/// old name. MariaDB lists all channels only with ALL, which it knows since 10.0.
const MYSQL_STATUS: &[&str] = &["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];
const MARIADB_STATUS: &[&str] = &["SHOW ALL SLAVES STATUS", "SHOW SLAVE STATUS"];

/// The most channels that are read, which is the limit of MySQL.
const MAX_CHANNELS: u64 = 256;

/// The channel of a member of a group, which runs only while the member joins.
const RECOVERY_CHANNEL: &str = "group_replication_recovery";

/// The channel of a member of a group that applies the transactions of the others. It never connects to a source, so
/// its lag may be NULL while it has nothing to apply.
const APPLIER_CHANNEL: &str = "group_replication_applier";

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_strings(&config, &["username", "password", "database"])?;
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

/// Checks the role and the lag. A server with a channel of replication that does not run is a Failure.
fn check_replication(s: &mut Session, said: String) -> Result<String> {
    let channels = Channels::of(s)?;
    let role = if channels.count == 0 { "source" } else { "replica" };
    let want = s.peer.config.text("role");
    if !want.is_empty() && want != role {
        s.peer.findings.fail_for("body", format!("the role is {}, want {}", role, want));
    }
    if role == "source" {
        return Ok(said + ", no replica");
    }
    if let Some(why) = channels.stopped {
        return Err(Error::Refused(why));
    }
    let (lag, place) = (channels.lag, channels.slowest);
    s.peer.findings.metric("replication_lag_seconds", "s", lag.into());
    let config = s.peer.config;
    common::check_bound(&mut s.peer.findings, config, "lag", Duration::from_secs(lag.into()), |limit| {
        format!("{}the replica is {} s behind, more than {}", place, lag, limit)
    });
    match channels.count {
        1 => Ok(format!("{}, a replica, {} s behind", said, lag)),
        n => Ok(format!("{}, a replica with {} channels, {} s behind", said, n, lag)),
    }
}

/// The channels of replication of a server.
#[derive(Default)]
struct Channels {
    count: usize,
    /// Why the first of them that does not run is stopped.
    stopped: Option<String>,
    /// The greatest lag, in seconds.
    lag: u32,
    /// The start of messages about the channel with this lag.
    slowest: String,
}

impl Channels {
    fn of(s: &mut Session) -> Result<Channels> {
        let statements = if is_mariadb(&s.greeting.version) { MARIADB_STATUS } else { MYSQL_STATUS };
        for (i, sql) in statements.iter().enumerate() {
            let mut channels = Channels::default();
            match s.query(sql, sql, MAX_CHANNELS, |row| channels.add(&row))? {
                Ok(_) => return Ok(channels),
                Err(e) if e.code == SYNTAX_ERROR && i + 1 < statements.len() => {}
                Err(e) => return Err(refused(e)),
            }
        }
        Ok(Channels::default())
    }

    fn add(&mut self, row: &Row) {
        let name = row.get("Channel_Name").or_else(|| row.get("Connection_name")).unwrap_or_default();
        if name == RECOVERY_CHANNEL {
            return;
        }
        self.count += 1;
        let place = if name.is_empty() { String::new() } else { format!("channel {:?}: ", shown(name.as_bytes())) };
        let lag = row.get("Seconds_Behind_Master").or_else(|| row.get("Seconds_Behind_Source"));
        let idle = lag.is_none() && name == APPLIER_CHANNEL && applies(row);
        match lag.or(idle.then_some("0")).and_then(|text| text.parse().ok()) {
            Some(lag) if lag > self.lag || self.count == 1 => {
                self.lag = lag;
                self.slowest = place;
            }
            Some(_) => {}
            None if self.stopped.is_none() => {
                let why = ["Last_IO_Error", "Last_SQL_Error"].iter().find_map(|name| row.get(name).filter(|text| !text.is_empty()));
                self.stopped = Some(format!("{}the replication does not run: {}", place, shown(why.unwrap_or("it is stopped").as_bytes())));
            }
            None => {}
        }
    }
}

/// Reports whether the thread that applies the transactions of a channel runs.
fn applies(row: &Row) -> bool {
    let running = row.get("Replica_SQL_Running").or_else(|| row.get("Slave_SQL_Running"));
    running != Some("No") && row.get("Last_SQL_Error").unwrap_or_default().is_empty()
}

fn check_query(s: &mut Session) -> Result<String> {
    let (start, sql) = (Instant::now(), s.peer.config.text("query"));
    let mut value = None;
    let answer = s.query("the query", &sql, 1, |mut row| value = row.values.drain(..).next().flatten());
    let rows = answer.and_then(|rows| rows.map_err(refused)).map_err(|e| e.during("the query"))?;
    s.peer.findings.metric("query_seconds", "s", start.elapsed().as_secs_f64());
    let config = s.peer.config;
    query::check(&mut s.peer.findings, config, value.as_deref(), rows);
    Ok(query::summary(value.as_deref(), rows))
}

fn is_mariadb(version: &str) -> bool {
    version.contains("MariaDB")
}

/// Returns "MariaDB 10.11.6" for "5.5.5-10.11.6-MariaDB-0+deb12u1".
fn product(version: &str) -> String {
    let version: String = version.chars().filter(|c| !c.is_control()).take(60).collect();
    let number = version.strip_prefix("5.5.5-").unwrap_or(&version);
    let number = number.split('-').next().unwrap_or_default();
    match is_mariadb(&version) {
        true => format!("MariaDB {}", number),
        false => format!("MySQL {}", number),
    }
}
