//! The plugin kafka: logs in to a Kafka broker, and checks the brokers, topics and partitions of its cluster, and the
//! lag of consumer groups. Read talk first.

use common::config::Config;
use common::peer::{converse, Peer, Protocol, Result};
use prober::Request;
use std::time::Instant;

mod brokers;
mod ends;
mod groups;
mod lag;
mod login;
mod metadata;
mod wire;

use wire::{Broker, FIND_COORDINATOR, LIST_OFFSETS, METADATA, OFFSET_FETCH};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "Kafka", tls_first: true };

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_login(&config, &["mechanism"])?;
    common::validate_strings(&config, &["username", "password"])?;
    lag::validate(&config)?;
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, |peer| talk(peer, request))
}

fn talk(peer: &mut Peer, request: &Request) -> Result<String> {
    let start = Instant::now();
    let mut number = 0;
    let mut broker = Broker { peer, number: &mut number, place: String::new() };
    let with_lag = broker.peer.config.get("consumerGroups").is_some();
    let apis: &[_] = if with_lag { &[METADATA, FIND_COORDINATOR, OFFSET_FETCH, LIST_OFFSETS] } else { &[METADATA] };
    login::open(&mut broker, apis)?;
    broker.peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    let (mut success, brokers) = metadata::check(&mut broker)?;
    if with_lag {
        success += &lag::check(broker, request, brokers == 1)?;
    }
    Ok(success)
}
