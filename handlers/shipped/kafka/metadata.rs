//! The brokers, topics and partitions of a cluster.

use crate::wire::{put_count, put_text, reason, Answer, Broker, METADATA};
use common::config::Config;
use common::peer::Result;
use common::{bounds, Findings};
use std::fmt;
use std::time::Instant;

/// The most partitions that a message names.
const MAX_NAMED: usize = 5;

/// The least bytes of a broker, a topic and a partition in the answer.
const LEAST_BROKER: usize = 12;
const LEAST_TOPIC: usize = 9;
const LEAST_PARTITION: usize = 18;

const UNKNOWN_TOPIC: i16 = 3;

/// The partitions with some fault: their number, and the first names.
#[derive(Default)]
struct Faulty {
    count: usize,
    names: Vec<String>,
}

impl Faulty {
    fn add(&mut self, topic: &str, partition: i32) {
        self.count += 1;
        if self.names.len() < MAX_NAMED {
            self.names.push(format!("{}-{}", topic, partition));
        }
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))?;
        match self.count - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {} more", more),
        }
    }
}

/// What a broker says of its cluster.
#[derive(Default)]
struct Cluster {
    brokers: usize,
    controller: i32,
    topics: usize,
    partitions: usize,
    leaderless: Faulty,
    under_replicated: Faulty,
    missing: Vec<String>, // topics of the config that the answer does not have
}

/// Checks the cluster, and returns the message of a Success.
pub fn check(broker: &mut Broker) -> Result<String> {
    let start = Instant::now();
    let wanted = broker.peer.config.texts("topics");
    let step = if broker.peer.config.get("username").is_some() { METADATA.name } else { "Metadata without a login" };
    let answer = broker.ask(&METADATA, step, &request(&wanted))?;
    let (cluster, failures) = read(answer, wanted)?;
    let peer = &mut broker.peer;
    peer.findings.metric("metadata_seconds", "s", start.elapsed().as_secs_f64());
    for why in failures {
        peer.findings.fail_for("body", why);
    }
    report(&mut peer.findings, peer.config, &cluster);
    Ok(format!("{}, {} with {}", counted(cluster.brokers, "broker"), counted(cluster.topics, "topic"), counted(cluster.partitions, "partition")))
}

fn counted(n: usize, what: &str) -> String {
    format!("{} {}{}", n, what, if n == 1 { "" } else { "s" })
}

/// Returns the body of a request for topics, or for all if there are none. No topic is created by it.
fn request(topics: &[String]) -> Vec<u8> {
    let mut body = Vec::new();
    match topics {
        [] => body.extend_from_slice(&(-1_i32).to_be_bytes()),
        topics => put_count(&mut body, topics.len()),
    }
    for topic in topics {
        put_text(&mut body, topic);
    }
    body.push(0); // allow_auto_topic_creation
    body
}

/// Reads an answer. It also returns why topics fail.
fn read(mut answer: Answer, wanted: Vec<String>) -> Result<(Cluster, Vec<String>)> {
    let mut cluster = Cluster { missing: wanted, ..Cluster::default() };
    let mut failures = Vec::new();
    answer.i32()?; // throttle_time_ms
    cluster.brokers = answer.count(LEAST_BROKER)?;
    for _ in 0..cluster.brokers {
        answer.i32()?; // its number
        answer.text()?; // host
        answer.i32()?; // port
        answer.text()?; // rack
    }
    answer.text()?; // the cluster's ID
    cluster.controller = answer.i32()?;
    for _ in 0..answer.count(LEAST_TOPIC)? {
        let (error, name) = (answer.i16()?, answer.text()?);
        answer.skip(1)?; // whether it is internal
        cluster.missing.retain(|topic| *topic != name);
        match error {
            0 => cluster.topics += 1,
            _ if failures.len() == MAX_NAMED => {}
            UNKNOWN_TOPIC => failures.push(format!("the topic {} does not exist", name)),
            _ => failures.push(format!("the topic {}: {}", name, reason(error))),
        }
        for _ in 0..answer.count(LEAST_PARTITION)? {
            read_partition(&mut answer, &name, &mut cluster)?;
        }
    }
    answer.end()?;
    Ok((cluster, failures))
}

fn read_partition(answer: &mut Answer, topic: &str, cluster: &mut Cluster) -> Result<()> {
    answer.i16()?; // an error, such as a leader that is missing
    let (partition, leader) = (answer.i32()?, answer.i32()?);
    let replicas = answer.count(4)?;
    answer.skip(4 * replicas)?;
    let in_sync = answer.count(4)?;
    answer.skip(4 * in_sync)?;
    cluster.partitions += 1;
    if leader < 0 {
        cluster.leaderless.add(topic, partition);
    } else if in_sync < replicas {
        cluster.under_replicated.add(topic, partition);
    }
    Ok(())
}

fn report(findings: &mut Findings, config: &Config, cluster: &Cluster) {
    for (name, value) in [
        ("brokers", cluster.brokers),
        ("topics", cluster.topics),
        ("partitions", cluster.partitions),
        ("leaderless_partitions", cluster.leaderless.count),
        ("under_replicated_partitions", cluster.under_replicated.count),
    ] {
        findings.metric(name, "", value as f64);
    }
    for topic in cluster.missing.iter().take(MAX_NAMED) {
        findings.fail_for("body", format!("the broker does not answer for the topic {}", topic));
    }
    if cluster.controller < 0 {
        findings.fail_for("body", "the cluster has no controller");
    }
    if cluster.leaderless.count > 0 {
        let faulty = &cluster.leaderless;
        findings.fail_for("body", format!("the cluster has no leader for {} of {}: {}", faulty.count, counted(cluster.partitions, "partition"), faulty));
    }
    bounds::check(findings, config, "brokers", "the number of brokers", &cluster.brokers.to_string());
    let what = format!("the number of under-replicated partitions ({})", cluster.under_replicated);
    bounds::check(findings, config, "underReplicated", &what, &cluster.under_replicated.count.to_string());
}
