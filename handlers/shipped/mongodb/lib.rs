//! The plugin mongodb: logs in to a MongoDB server, sends a ping, and checks its role, and the members and the lag of
//! its replica set. Read talk first.

use common::config::Config;
use common::peer::{converse, Error, Peer, Protocol, Result};
use common::scram::{Scram, SHA256};
use prober::Request;
use std::time::Instant;

mod bson;
mod replication;
mod wire;

use bson::{Document, Value};
use wire::{Answer, Server};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "MongoDB", tls_first: true };

/// The name of the login in messages.
const LOGIN: &str = "the login";

/// What a router of a sharded cluster says of itself.
const ROUTER: &str = "isdbgrid";

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_login(&config, &["authSource"])?;
    common::validate_bounds(&config, "lag")?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let mut server = Server::new(peer);
    let hello = server.run("hello", "admin", Document::new().int("hello", 1))?;
    if server.peer.config.get("username").is_some() {
        log_in(&mut server)?;
        server.peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    }
    let start = Instant::now();
    server.run("ping", "admin", Document::new().int("ping", 1))?;
    server.peer.findings.metric("ping_seconds", "s", start.elapsed().as_secs_f64());
    let mut said = check_role(&mut server, &hello) + " answers";
    if replication::is_wanted(server.peer.config) {
        said = format!("{}; {}", said, replication::check(&mut server)?);
    }
    Ok(said)
}

/// Checks the replica set and the role of the server, and returns its name for messages.
fn check_role(server: &mut Server, hello: &Answer) -> String {
    let (set, primary) = (hello.text("setName"), hello.text("primary"));
    let is_primary = hello.flag("isWritablePrimary");
    let role = if is_primary {
        "primary"
    } else if hello.flag("secondary") {
        "secondary"
    } else if hello.flag("arbiterOnly") {
        "arbiter"
    } else {
        "member without a role"
    };
    let findings = &mut server.peer.findings;
    let want = server.peer.config.text("role");
    if !want.is_empty() && want != role {
        findings.fail_for("body", format!("the role is {}, want {}", role, want));
    }
    let want = server.peer.config.text("replicaSet");
    if !want.is_empty() && want != set {
        findings.fail_for("body", format!("the replica set is {:?}, want {:?}", set, want));
    }
    if set.is_empty() {
        return if hello.text("msg") == ROUTER { "a router".into() } else { "a server without a replica set".into() };
    }
    if primary.is_empty() && !is_primary {
        findings.fail_for("body", format!("the replica set {} has no primary", set));
    }
    format!("{} {} of the replica set {}", if role == "arbiter" { "an" } else { "a" }, role, set)
}

fn log_in(server: &mut Server) -> Result<()> {
    let config = server.peer.config;
    let database = Some(config.text("authSource")).filter(|d| !d.is_empty()).unwrap_or_else(|| "admin".into());
    let scram = Scram::new(&SHA256, &config.text("username"))?;
    let begin = Document::new()
        .int("saslStart", 1)
        .text("mechanism", SHA256.name)
        .binary("payload", scram.first().as_bytes())
        .document("options", Document::new().flag("skipEmptyExchange", true));
    let answer = server.run(LOGIN, &database, begin)?;
    let id = match answer.get("conversationId") {
        Some(Value::Number(id)) => id as i32,
        _ => return Err(server.malformed(LOGIN)),
    };
    let challenge = payload(server, &answer)?;
    let proof = scram.prove(&challenge, &config.text("password")).ok_or_else(|| server.peer.protocol("a malformed challenge of SCRAM"))?;
    let answer = server.run(LOGIN, &database, go_on(id, proof.message.as_bytes()))?;
    if payload(server, &answer)? != proof.wanted {
        return Err(Error::Refused("the server does not prove that it knows the password".into()));
    }
    if answer.flag("done") {
        return Ok(());
    }
    // A server that does not know skipEmptyExchange wants one more message.
    match server.run(LOGIN, &database, go_on(id, b""))?.flag("done") {
        true => Ok(()),
        false => Err(server.malformed(LOGIN)),
    }
}

fn go_on(id: i32, payload: &[u8]) -> Document {
    Document::new().int("saslContinue", 1).int("conversationId", id).binary("payload", payload)
}

/// Returns the message of a step of SASL.
fn payload(server: &Server, answer: &Answer) -> Result<String> {
    match answer.get("payload") {
        Some(Value::Binary(data)) | Some(Value::Text(data)) => Ok(String::from_utf8_lossy(data).into_owned()),
        _ => Err(server.malformed(LOGIN)),
    }
}
