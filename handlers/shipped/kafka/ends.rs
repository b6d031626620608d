//! Where partitions end. Read Ends::read first.

use crate::brokers::{Brokers, Node};
use crate::groups::{too_many_partitions, MAX_PARTITIONS};
use crate::metadata::{self, Item};
use crate::wire::{put_count, put_text, reason, Answer, LIST_OFFSETS, METADATA};
use common::peer::{Error, Result};

const MAX_BROKERS: usize = 1000;

/// The most causes that are told apart.
const MAX_CAUSES: usize = 100;

/// The least bytes of a topic and a partition in the answer to ListOffsets.
const LEAST_TOPIC: usize = 6;
const LEAST_PARTITION: usize = 22;

/// The first causes.
const NOT_IN_ANSWER: usize = 0;
const NO_LEADER: usize = 1;

/// The replica that a consumer is.
const CONSUMER: i32 = -1;

/// The time that stands for the end of a partition.
const LATEST: i64 = -1;

pub struct Ends {
    topics: Vec<Topic>,
    nodes: Vec<Node>,
    partitions: usize,
    causes: Vec<String>,
}

/// A topic: an error, or its partitions in their order.
pub struct Topic {
    pub name: String,
    pub error: i16,
    pub partitions: Vec<Partition>,
}

pub struct Partition {
    pub number: i32,
    leader: i32,
    /// The offset of the next message, or the number of the cause why it is not known.
    pub end: std::result::Result<i64, usize>,
}

impl Topic {
    /// Returns where a partition ends.
    pub fn end(&self, number: i32) -> std::result::Result<i64, usize> {
        let at = self.partitions.binary_search_by_key(&number, |p| p.number).map_err(|_| NOT_IN_ANSWER)?;
        self.partitions[at].end
    }
}

impl Ends {
    /// Asks the leaders of all partitions of some topics.
    pub fn read(brokers: &mut Brokers, topics: &[String]) -> Result<Ends> {
        let causes = vec!["the brokers do not answer for it".into(), "no leader".into()];
        let mut ends = Ends { topics: Vec::new(), nodes: Vec::new(), partitions: 0, causes };
        if topics.is_empty() {
            return Ok(ends);
        }
        let step = "Metadata of the topics of the groups";
        brokers.ask_target(&METADATA, step, &metadata::request(topics), |answer| metadata::read(answer, |item| ends.add(item, topics)))?;
        let mut leaders = Vec::new();
        for p in ends.topics.iter().flat_map(|t| &t.partitions) {
            if p.leader >= 0 && !leaders.contains(&p.leader) {
                leaders.push(p.leader);
            }
        }
        for leader in leaders {
            ends.ask(brokers, leader)?;
        }
        Ok(ends)
    }

    /// Returns a topic. None if the brokers do not answer for it.
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.iter().find(|t| t.name == name)
    }

    pub fn cause(&self, number: usize) -> &str {
        &self.causes[number]
    }

    fn add(&mut self, item: Item, wanted: &[String]) -> Result<()> {
        match item {
            Item::Broker { .. } if self.nodes.len() == MAX_BROKERS => return Err(Error::Refused(format!("the cluster has more than {} brokers", MAX_BROKERS))),
            Item::Broker { id, host, port } => self.nodes.push(Node { id, host, port }),
            Item::Topic { name, error } => {
                if wanted.iter().any(|topic| topic == name) && self.topic(name).is_none() {
                    self.topics.push(Topic { name: name.into(), error, partitions: Vec::new() });
                }
            }
            Item::Partition { topic, number, leader, .. } => {
                if let Some(topic) = self.topics.last_mut().filter(|t| t.name == topic) {
                    self.partitions += 1;
                    if self.partitions > MAX_PARTITIONS {
                        return Err(too_many_partitions());
                    }
                    let at = topic.partitions.partition_point(|p| p.number < number);
                    topic.partitions.insert(at, Partition { number, leader, end: Err(if leader < 0 { NO_LEADER } else { NOT_IN_ANSWER }) });
                }
            }
            Item::Controller(_) => {}
        }
        Ok(())
    }

    /// Asks the leader of partitions. It fails only if the target is lost.
    fn ask(&mut self, brokers: &mut Brokers, leader: i32) -> Result<()> {
        let cause = match self.nodes.iter().position(|node| node.id == leader) {
            None => format!("the leader, broker {}, is not in the cluster", leader),
            Some(at) => {
                let node = self.nodes.swap_remove(at);
                match brokers.ask(&node, "a leader of partitions", &LIST_OFFSETS, "ListOffsets", &self.request(leader), |answer| self.read_ends(answer, leader)) {
                    Ok(()) => return Ok(()),
                    Err(e) if brokers.lost => return Err(e),
                    Err(e) => e.to_string(),
                }
            }
        };
        let cause = self.cause_of(cause);
        for partition in self.topics.iter_mut().flat_map(|t| &mut t.partitions).filter(|p| p.leader == leader) {
            partition.end = Err(cause);
        }
        Ok(())
    }

    fn request(&self, leader: i32) -> Vec<u8> {
        let mut led = Vec::new();
        for topic in &self.topics {
            let numbers: Vec<i32> = topic.partitions.iter().filter(|p| p.leader == leader).map(|p| p.number).collect();
            if !numbers.is_empty() {
                led.push((&topic.name, numbers));
            }
        }
        let mut body = CONSUMER.to_be_bytes().to_vec();
        put_count(&mut body, led.len());
        for (topic, numbers) in led {
            put_text(&mut body, topic);
            put_count(&mut body, numbers.len());
            for number in numbers {
                body.extend_from_slice(&number.to_be_bytes());
                body.extend_from_slice(&LATEST.to_be_bytes());
            }
        }
        body
    }

    fn read_ends(&mut self, mut answer: Answer, leader: i32) -> Result<()> {
        for _ in 0..answer.count(LEAST_TOPIC)? {
            let topic = answer.topic()?;
            for _ in 0..answer.count(LEAST_PARTITION)? {
                let (number, error) = (answer.i32()?, answer.i16()?);
                answer.i64()?; // a time
                let end = match (error, answer.i64()?) {
                    (0, offset) if offset >= 0 => Ok(offset),
                    (0, _) => Err(NOT_IN_ANSWER),
                    _ => Err(self.cause_of(reason(error))),
                };
                if let Some(topic) = self.topics.iter_mut().find(|t| t.name == topic) {
                    match topic.partitions.binary_search_by_key(&number, |p| p.number) {
                        Ok(at) if topic.partitions[at].leader == leader => topic.partitions[at].end = end,
                        _ => {} // it was not asked for
                    }
                }
            }
        }
        answer.end()
    }

    /// Returns the number of a cause.
    fn cause_of(&mut self, text: String) -> usize {
        match self.causes.iter().position(|cause| *cause == text) {
            Some(at) => at,
            None if self.causes.len() == MAX_CAUSES => NOT_IN_ANSWER,
            None => {
                self.causes.push(text);
                self.causes.len() - 1
            }
        }
    }
}
