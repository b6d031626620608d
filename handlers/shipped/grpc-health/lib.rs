//! The plugin grpc-health: asks a server for the health of services, grpc.health.v1, or by reflection whether it has
//! them. Read talk first.

use common::config::{tls_options, Config};
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use grpc::{Reply, Value};
use http2::Client;
use prober::{json, Request, Verdict};
use std::time::Instant;

mod grpc;
mod hpack;
mod http2;

prober::plugin!(probe, validate);

// TLS is made with a protocol of its own, h2, so talk starts it.
const PROTOCOL: Protocol = Protocol { name: "gRPC", tls_first: false };

/// The most names of services that a message has.
const MAX_NAMED: usize = 20;

/// The values of HealthCheckResponse.ServingStatus.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if config.get("services").is_some() && !config.text("service").is_empty() {
        return Err("services: not with service".into());
    }
    for (name, value) in config.pairs("metadata") {
        grpc::check_metadata(&name, &value)?;
    }
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    let mut is_unknown = false;
    let mut outcome = converse(&PROTOCOL, request, |peer| talk(peer, request, &mut is_unknown))?;
    if is_unknown && outcome.verdict == Verdict::Failure {
        outcome.verdict = Verdict::Unknown;
    }
    Ok(outcome)
}

fn talk(peer: &mut Peer, request: &Request, is_unknown: &mut bool) -> Result<String> {
    if peer.config.flag("tls") {
        peer.start_tls_with(&with_protocol(&tls_options(peer.config)))?;
    }
    let mut services = peer.config.texts("services");
    let start = Instant::now();
    let mut client = Client::new();
    let authority = authority(peer.config, request);
    let said = if peer.config.flag("reflection") {
        services.extend(Some(peer.config.text("service")).filter(|name| !name.is_empty()));
        reflection(&mut client, peer, &authority, &services)
    } else {
        if services.is_empty() {
            services.push(peer.config.text("service"));
        }
        health(&mut client, peer, &authority, &services, is_unknown)
    };
    peer.findings.metric("check_seconds", "s", start.elapsed().as_secs_f64());
    said
}

/// Returns options of TLS with the protocol of HTTP/2.
fn with_protocol(options: &str) -> String {
    let mut fields: Vec<(String, String)> = json::fields(options).into_iter().map(|(name, value)| (name, value.into())).collect();
    fields.push(("alpn".into(), r#"["h2"]"#.into()));
    json::object(fields.iter().map(|(name, value)| (name.as_str(), value.clone())))
}

/// Returns the name of the server in calls, the target by default.
fn authority(config: &Config, request: &Request) -> String {
    let (own, host) = (config.text("authority"), request.host());
    match (own.as_str(), host.contains(':')) {
        ("", _) if !request.unix().is_empty() => "localhost".into(),
        ("", true) => format!("[{}]:{}", host, request.port()),
        ("", false) => format!("{}:{}", host, request.port()),
        _ => own,
    }
}

/// Asks for the health of each service. is_unknown becomes true if nothing is wrong but the status UNKNOWN.
fn health(client: &mut Client, peer: &mut Peer, authority: &str, services: &[String], is_unknown: &mut bool) -> Result<String> {
    let (mut bad, mut unknown) = (0, 0);
    for service in services {
        let who = if service.is_empty() { "the server".into() } else { format!("service {:?}", service) };
        let message = if service.is_empty() { Vec::new() } else { grpc::bytes_field(1, service) };
        let reply = grpc::call(client, peer, authority, "/grpc.health.v1.Health/Check", &message)?;
        let status = status(peer, &reply, &who)?;
        peer.findings.labelled("serving", "", f64::from(u8::from(status == Some(1))), &[("service", service)]);
        let why = match status {
            Some(1) => continue,
            None => format!("{} is not known to the health service{}", who, reply.said()),
            Some(n) => match usize::try_from(n).ok().and_then(|n| STATUSES.get(n)) {
                Some(name) => format!("{} is {}", who, name),
                None => format!("{} has the status {}, which is not known", who, n),
            },
        };
        peer.findings.fail_for("body", why);
        bad += 1;
        unknown += u32::from(status == Some(0));
    }
    *is_unknown = bad > 0 && bad == unknown;
    Ok(match services {
        [one] if one.is_empty() => "the server is SERVING".into(),
        [one] => format!("service {:?} is SERVING", one),
        all => format!("{} services are SERVING", all.len()),
    })
}

/// Returns the status in an answer of the health service, None for a service that it does not know.
fn status(peer: &Peer, reply: &Reply, who: &str) -> Result<Option<u64>> {
    match reply.code {
        grpc::OK => {}
        grpc::NOT_FOUND => return Ok(None),
        grpc::UNIMPLEMENTED => return Err(Error::Refused(format!("the server does not implement grpc.health.v1.Health{}", reply.said()))),
        _ => return Err(reply.refused()),
    }
    let fields = grpc::fields(&reply.message).ok_or_else(|| peer.protocol(format!("the answer about {} is no HealthCheckResponse", who)))?;
    let numbers = fields.iter().filter(|(number, _)| *number == 1).map(|(_, value)| match value {
        Value::Number(n) => Some(*n),
        Value::Bytes(_) => None,
    });
    let last = numbers.last().unwrap_or(Some(0));
    last.map(Some).ok_or_else(|| peer.protocol(format!("the answer about {} is no HealthCheckResponse", who)))
}

/// Asks by reflection, v1 or else v1alpha, for the list of services, and checks that all wanted ones are there.
fn reflection(client: &mut Client, peer: &mut Peer, authority: &str, wanted: &[String]) -> Result<String> {
    let list = grpc::bytes_field(7, "*"); // list_services
    let mut reply = grpc::call(client, peer, authority, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &list)?;
    if reply.code == grpc::UNIMPLEMENTED {
        reply = grpc::call(client, peer, authority, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &list)?;
    }
    match reply.code {
        grpc::OK => {}
        grpc::UNIMPLEMENTED => return Err(Error::Refused(format!("the server has no reflection{}", reply.said()))),
        _ => return Err(reply.refused()),
    }
    let names = match names(&reply.message) {
        Some(Ok(names)) => names,
        Some(Err(why)) => return Err(Error::Refused(format!("reflection: {}", shown(why.as_bytes())))),
        None => return Err(peer.protocol("the answer is no ServerReflectionResponse")),
    };
    peer.findings.metric("services", "", names.len() as f64);
    let missing: Vec<String> = wanted.iter().filter(|name| !names.contains(name)).map(|name| format!("{:?}", name)).collect();
    if !missing.is_empty() {
        let mut known: Vec<String> = names.iter().take(MAX_NAMED).map(|name| shown(name.as_bytes())).collect();
        if names.len() > MAX_NAMED {
            known.push(format!("and {} more", names.len() - MAX_NAMED));
        }
        let noun = if missing.len() == 1 { "service" } else { "services" };
        return Err(Error::Refused(format!("the server does not have the {} {}; it has {}", noun, missing.join(", "), known.join(", "))));
    }
    Ok(format!("the server has {} services", names.len()))
}

/// Returns the names in a ServerReflectionResponse, or the message of an error in it. None is another message.
fn names(message: &[u8]) -> Option<std::result::Result<Vec<String>, String>> {
    let part = |data, wanted| -> Option<Vec<&[u8]>> {
        let fields = grpc::fields(data)?.into_iter().filter(|(number, _)| *number == wanted);
        let values = fields.filter_map(|(_, value)| if let Value::Bytes(b) = value { Some(b) } else { None });
        Some(values.collect())
    };
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    if let Some(error) = part(message, 7)?.last() {
        return Some(Err(part(error, 2)?.last().map(|b| text(b)).unwrap_or_default()));
    }
    let list = *part(message, 6)?.last()?;
    let mut names = Vec::new();
    for service in part(list, 1)? {
        names.extend(part(service, 1)?.last().map(|b| text(b)));
    }
    Some(Ok(names))
}
