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
pub struct Faulty {
    pub count: usize,
    names: Vec<String>,
}

impl Faulty {
    pub fn add(&mut self, topic: &str, partition: i32) {
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
    missing: Vec<String>,  // topics of the config that the answer does not have
    failures: Vec<String>, // why topics fail
}

impl Cluster {
    fn add(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Broker { .. } => self.brokers += 1,
            Item::Controller(id) => self.controller = id,
            Item::Topic { name, error } => {
                self.missing.retain(|topic| topic != name);
                match error {
                    0 => self.topics += 1,
                    _ if self.failures.len() == MAX_NAMED => {}
                    _ => self.failures.push(topic_failure(name, error)),
                }
            }
            Item::Partition { topic, number, leader, replicas, in_sync } => {
                self.partitions += 1;
                if leader < 0 {
                    self.leaderless.add(topic, number);
                } else if in_sync < replicas {
                    self.under_replicated.add(topic, number);
                }
            }
        }
        Ok(())
    }
}

/// Returns why a topic fails that has an error.
pub fn topic_failure(topic: &str, error: i16) -> String {
    match error {
        UNKNOWN_TOPIC => format!("the topic {} does not exist", topic),
        _ => format!("the topic {}: {}", topic, reason(error)),
    }
}

/// Checks the cluster. Returns the message of a Success, and the number of brokers.
pub fn check(broker: &mut Broker) -> Result<(String, usize)> {
    let start = Instant::now();
    let wanted = broker.peer.config.texts("topics");
    let step = if broker.peer.config.get("username").is_some() { METADATA.name } else { "Metadata without a login" };
    let answer = broker.ask(&METADATA, step, &request(&wanted))?;
    let mut cluster = Cluster { missing: wanted, ..Cluster::default() };
    read(answer, |item| cluster.add(item))?;
    let peer = &mut broker.peer;
    peer.findings.metric("metadata_seconds", "s", start.elapsed().as_secs_f64());
    for why in cluster.failures.drain(..) {
        peer.findings.fail_for("body", why);
    }
    report(&mut peer.findings, peer.config, &cluster);
    let (brokers, topics) = (counted(cluster.brokers, "broker"), counted(cluster.topics, "topic"));
    Ok((format!("{}, {} with {}", brokers, topics, counted(cluster.partitions, "partition")), cluster.brokers))
}

fn counted(n: usize, what: &str) -> String {
    format!("{} {}{}", n, what, if n == 1 { "" } else { "s" })
}

/// Returns the body of a request for topics, or for all if there are none. No topic is created by it.
pub fn request(topics: &[String]) -> Vec<u8> {
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

/// An item of an answer.
pub enum Item<'t> {
    Broker { id: i32, host: String, port: i32 },
    /// The number of the broker that is the controller.
    Controller(i32),
    Topic { name: &'t str, error: i16 },
    /// A partition of the topic before it.
    Partition { topic: &'t str, number: i32, leader: i32, replicas: usize, in_sync: usize },
}

/// Reads an answer, and calls each for its items in their order.
pub fn read(mut answer: Answer, mut each: impl FnMut(Item) -> Result<()>) -> Result<()> {
    answer.i32()?; // throttle_time_ms
    for _ in 0..answer.count(LEAST_BROKER)? {
        each(Item::Broker { id: answer.i32()?, host: answer.text()?, port: answer.i32()? })?;
        answer.text()?; // rack
    }
    answer.text()?; // the cluster's ID
    each(Item::Controller(answer.i32()?))?;
    for _ in 0..answer.count(LEAST_TOPIC)? {
        let (error, topic) = (answer.i16()?, answer.topic()?);
        answer.skip(1)?; // whether it is internal
        each(Item::Topic { name: &topic, error })?;
        for _ in 0..answer.count(LEAST_PARTITION)? {
            answer.i16()?; // an error, such as a leader that is missing
            let (number, leader) = (answer.i32()?, answer.i32()?);
            let replicas = answer.count(4)?;
            answer.skip(4 * replicas)?;
            let in_sync = answer.count(4)?;
            answer.skip(4 * in_sync)?;
            each(Item::Partition { topic: &topic, number, leader, replicas, in_sync })?;
        }
    }
    answer.end()
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
