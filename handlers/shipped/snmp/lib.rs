//! The plugin snmp: asks an SNMP agent for the value of an object, and checks it. Read probe first; message.rs has the
//! requests and answers as bytes.

use common::config::Config;
use common::peer::shown;
use common::{bounds, check_latency, datagram, validate_limits, Findings};
use message::{Answer, Get, Oid};
use prober::Request;
use std::time::Instant;

mod message;

prober::plugin!(probe, validate);

const PORT: u16 = 161;

/// Agents are silent about a wrong community.
const SILENCE: &str = "no answer, as to a wrong community";

fn oid_of(config: &Config) -> prober::Result<Oid> {
    let text = config.text("oid");
    Ok(Oid::parse(&text).ok_or_else(|| format!("oid: {:?} is not an object identifier", text))?)
}

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    oid_of(&config)?;
    validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    let config = Config::of(request);
    let oid = oid_of(&config)?;
    let community = config.get("community").map_or_else(|| "public".into(), prober::json::text);
    let get = Get::new(if config.text("version") == "v1" { 0 } else { 1 }, community, oid)?;
    let mut findings = Findings::default();
    let start = Instant::now();
    let answer = datagram::dial(request, PORT)
        .and_then(|mut conn| datagram::exchange(&mut conn, SILENCE, || Ok(get.bytes()), |data| get.answer(data)));
    let took = start.elapsed();
    let mut said = String::new();
    match answer {
        Ok(Ok(answer)) => {
            findings.metric("response_seconds", "s", took.as_secs_f64());
            said = check(&mut findings, &config, &get.oid, &answer);
        }
        Ok(Err(why)) => findings.fail_for("protocol", format!("not SNMP: {}", why)),
        Err(e) => findings.fail(e.to_string()),
    }
    if findings.passed() {
        check_latency(&mut findings, &config, took)?;
    }
    Ok(findings.outcome(said))
}

/// Checks an answer. It returns the message of a Success.
fn check(findings: &mut Findings, config: &Config, oid: &Oid, answer: &Answer) -> String {
    let (value, text) = match answer {
        Answer::Refused(status) => {
            findings.fail_for("body", format!("the agent refuses {}: {} ({})", oid, status_name(*status), status));
            return String::new();
        }
        Answer::Missing(why) => {
            findings.fail_for("body", format!("{} has no value: {}", oid, why));
            return String::new();
        }
        Answer::Number(number) => (number, number.clone()),
        Answer::Text(text) => (text, format!("{:?}", shown(text.as_bytes()))),
    };
    if let (Answer::Number(_), Ok(number)) = (answer, value.parse()) {
        findings.metric("value", "", number);
    }
    let want = config.text("contains");
    if !value.contains(&want) {
        findings.fail_for("body", format!("the value is {}, which does not contain {:?}", text, want));
    }
    bounds::check(findings, config, "value", "the value", value);
    format!("{} is {}", oid, text)
}

fn status_name(status: u32) -> &'static str {
    match status {
        1 => "the answer is too big",
        2 => "no such name",
        3 => "bad value",
        4 => "read only",
        5 => "general error",
        6 => "no access",
        13 => "resource unavailable",
        16 => "authorization error",
        _ => "error",
    }
}
