//! The plugin kafka: logs in to a Kafka broker, and checks the brokers, topics and partitions of its cluster. Read
//! talk first.

use common::config::Config;
use common::peer::{converse, Peer, Protocol, Result};
use prober::Request;
use std::time::Instant;

mod login;
mod metadata;
mod wire;

use wire::{Broker, METADATA};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "Kafka", tls_first: true };

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if config.get("username").is_some() != config.get("password").is_some() {
        return Err("username and password: one of them is not set".into());
    }
    if config.get("mechanism").is_some() && config.get("username").is_none() {
        return Err("mechanism: needs a username".into());
    }
    if ["username", "password"].iter().any(|name| config.text(name).contains('\0')) {
        return Err("a zero byte is in username or password".into());
    }
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let mut broker = Broker::new(peer);
    login::open(&mut broker, &[METADATA])?;
    broker.peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    metadata::check(&mut broker)
}
