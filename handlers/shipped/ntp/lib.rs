//! The plugin ntp: asks a time server for the time, as an SNTP client of version 4 does (RFC 5905), and compares it
//! with the clock of the host. Read probe first; packet.rs has the requests and answers.

use common::config::Config;
use common::peer::shown;
use common::{bounds, check_bound, check_latency, datagram, validate_bounds, validate_limits, Findings};
use packet::{Answer, Sent};
use prober::Request;
use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

mod packet;

prober::plugin!(probe, validate);

const PORT: u16 = 123;

const MAX_STRATUM: u8 = 15;

/// The value of leap of a server whose clock is not synchronized.
const UNSYNCHRONIZED: u8 = 3;

/// How far the clocks may be apart.
struct Offset {
    warn: Duration,
    fail: Duration,
}

impl Offset {
    fn of(config: &Config) -> prober::Result<Offset> {
        let limits = Config(config.get("offset").unwrap_or("{}"));
        let (warn, fail) = (limits.duration("warn")?, limits.duration("fail")?);
        let fail = fail.unwrap_or_else(|| warn.unwrap_or_default().max(Duration::from_secs(1)));
        let offset = Offset { warn: warn.unwrap_or_else(|| fail.min(Duration::from_millis(100))), fail };
        if offset.warn > offset.fail {
            return Err("offset.warn: must not be above offset.fail".into());
        }
        Ok(offset)
    }
}

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    Offset::of(&config)?;
    validate_bounds(&config, "rootDistance")?;
    validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    let config = Config::of(request);
    let limits = Offset::of(&config)?;
    let mut findings = Findings::default();
    let start = Instant::now();
    let said = match ask(request) {
        Ok(answer) => check(&mut findings, &config, &limits, &answer),
        Err(e) => {
            findings.fail(e.to_string());
            String::new()
        }
    };
    if findings.passed() {
        check_latency(&mut findings, &config, start.elapsed())?;
    }
    Ok(findings.outcome(said))
}

fn ask(request: &Request) -> io::Result<Answer> {
    let mut conn = datagram::dial(request, PORT)?;
    let sent = RefCell::new(Vec::new()); // both closures need the requests
    let send = || {
        let (packet, request) = Sent::new()?;
        sent.borrow_mut().push(request);
        Ok(packet)
    };
    datagram::exchange(&mut conn, "no answer", send, |data| Answer::parse(data, &sent.borrow()))
}

/// Checks an answer, and adds its metrics. It returns the message of a Success.
fn check(findings: &mut Findings, config: &Config, limits: &Offset, a: &Answer) -> String {
    if a.stratum == 0 && a.kiss().is_some() {
        findings.fail_for("body", format!("the server turns clients away: {}", meaning(&a.kiss().unwrap_or_default())));
        return String::new();
    }
    if a.stratum == 0 || a.stratum > MAX_STRATUM || a.leap == UNSYNCHRONIZED {
        findings.fail_for("body", "the server is not synchronized");
        return String::new();
    }
    if a.has_no_time {
        findings.fail_for("protocol", "not NTP: an answer without a time");
        return String::new();
    }
    let distance = a.root_distance();
    for (name, value) in [
        ("offset_seconds", a.offset),
        ("delay_seconds", a.delay),
        ("root_delay_seconds", a.root_delay),
        ("root_dispersion_seconds", a.root_dispersion),
        ("root_distance_seconds", distance),
    ] {
        findings.metric(name, "s", value);
    }
    findings.metric("stratum", "", f64::from(a.stratum));
    findings.metric("leap", "", f64::from(a.leap));
    bounds::check(findings, config, "stratum", "the stratum", &a.stratum.to_string());
    let text = format!("{:.6} s {}", a.offset.abs(), if a.offset < 0.0 { "behind" } else { "ahead" });
    let off = a.offset.abs();
    if off > limits.fail.as_secs_f64() {
        findings.fail_for("body", format!("the server's clock is {}, more than {:.6} s", text, limits.fail.as_secs_f64()));
    } else if off > limits.warn.as_secs_f64() {
        findings.warn(format!("the server's clock is {}, more than {:.6} s", text, limits.warn.as_secs_f64()));
    }
    check_bound(findings, config, "rootDistance", Duration::from_secs_f64(distance), |limit| {
        format!("the server's clock may be {:.6} s off by its root distance, more than {}", distance, limit)
    });
    format!("stratum {}, {}, {:.6} s away", a.stratum, text, a.delay)
}

/// Returns a kiss-o'-death code with its meaning.
fn meaning(code: &str) -> String {
    let why = match code {
        "DENY" | "RSTR" => "access is denied",
        "RATE" => "it is asked too often",
        "INIT" | "STEP" => "its clock is not set yet",
        "ACST" | "BCST" | "MCST" => "it answers no single clients",
        "AUTH" | "AUTO" | "CRYP" | "NKEY" => "it wants authentication",
        "DROP" | "RMOT" => "it has lost or refused the peer",
        _ => return shown(code.as_bytes()),
    };
    format!("{} ({})", code, why)
}
