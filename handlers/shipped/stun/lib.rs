//! The plugin stun: asks a STUN server for the address of its client, over UDP, TCP or TLS. Read probe first;
//! message.rs has the requests and answers as bytes.

use common::config::Config;
use common::peer::{converse, Peer, Protocol};
use common::{check_latency, datagram, validate_limits, Findings};
use message::{body_size, Answer, Request as Binding, HEADER};
use prober::Request;
use std::net::IpAddr;
use std::time::Instant;

mod message;

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "STUN", tls_first: true };

const PORT: u16 = 3478;

/// The step of the request, in messages.
const STEP: &str = "the binding request";

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if config.get("address").is_some() && config.text("address").parse::<IpAddr>().is_err() {
        return Err(format!("address: {:?} is not an IP address", config.text("address")).into());
    }
    if !over_stream(&config) && ["tlsConfig", "credentials", "certificateAge"].iter().any(|name| config.get(name).is_some()) {
        return Err("tlsConfig, credentials and certificateAge need tls".into());
    }
    validate_limits(&config)
}

/// Reports whether the config asks for TCP, which TLS needs.
fn over_stream(config: &Config) -> bool {
    config.flag("tls") || config.text("protocol") == "tcp"
}

fn probe(request: &Request) -> prober::Result {
    let config = Config::of(request);
    if over_stream(&config) {
        return converse(&PROTOCOL, request, talk);
    }
    let mut findings = Findings::default();
    let binding = Binding::new()?;
    let start = Instant::now();
    // A request that is sent again is the same one, as the protocol wants.
    let answer = datagram::dial(request, PORT).and_then(|mut conn| {
        let accept = |data: &[u8]| binding.is_answered_by(data).then(|| binding.parse(data));
        datagram::exchange(&mut conn, "no answer to the binding request", || Ok(binding.bytes()), accept)
    });
    let took = start.elapsed();
    let mut said = String::new();
    match answer {
        Ok(Ok(answer)) => {
            findings.metric("response_seconds", "s", took.as_secs_f64());
            said = check(&mut findings, &config, &answer);
        }
        Ok(Err(why)) => findings.fail_for("protocol", format!("not STUN: {}", why)),
        Err(e) => findings.fail(e.to_string()),
    }
    if findings.passed() {
        check_latency(&mut findings, &config, took)?;
    }
    Ok(findings.outcome(said))
}

/// Asks over TCP or TLS.
fn talk(peer: &mut Peer) -> common::peer::Result<String> {
    let binding = Binding::new()?;
    let start = Instant::now();
    peer.awaits(STEP);
    peer.send(&binding.bytes())?;
    let mut message = peer.exact(HEADER)?;
    if !binding.is_answered_by(&message) {
        return Err(peer.unexpected(&message));
    }
    message.extend(peer.exact(body_size(&message))?);
    let answer = binding.parse(&message).map_err(|why| peer.protocol(why))?;
    peer.findings.metric("response_seconds", "s", start.elapsed().as_secs_f64());
    Ok(check(&mut peer.findings, peer.config, &answer))
}

/// Checks an answer. It returns the message of a Success.
fn check(findings: &mut Findings, config: &Config, answer: &Answer) -> String {
    if answer.code != 0 {
        findings.fail_for("body", format!("the server refuses: {}", answer));
        return String::new();
    }
    let mapped = match answer.mapped {
        Some(mapped) => mapped,
        None => {
            findings.fail_for("body", "the answer has no address");
            return String::new();
        }
    };
    if let Ok(want) = config.text("address").parse::<IpAddr>() {
        if mapped.ip() != want {
            findings.fail_for("body", format!("the server sees the address {}, want {}", mapped.ip(), want));
        }
    }
    let by = if answer.software.is_empty() { String::new() } else { format!(" by {}", answer.software) };
    format!("seen as {}{}", mapped, by)
}
