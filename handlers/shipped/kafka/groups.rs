//! The offsets that consumer groups have committed. Read fetch first.

use crate::brokers::{Brokers, Node};
use crate::wire::{put_text, reason, Answer, FIND_COORDINATOR, OFFSET_FETCH};
use common::config::Config;
use common::peer::{Error, Result};

/// The most topics of all groups with an offset.
const MAX_TOPICS: usize = 1000;

/// The most partitions of all groups.
pub const MAX_PARTITIONS: usize = 10_000;

/// The least bytes of a topic and a partition in the answer to OffsetFetch.
const LEAST_TOPIC: usize = 6;
const LEAST_PARTITION: usize = 16;

/// A consumer group of the config.
pub struct Group<'c> {
    pub config: Config<'c>,
    pub name: String,
    /// The topics of the config; if there are none, all that have an offset count.
    pub topics: Vec<String>,
    /// The topics with partitions that have an offset or an error.
    pub committed: Vec<(String, Vec<Offset>)>,
}

/// A partition with its offset, or with an error. Those of a topic are in their order.
pub type Offset = (i32, std::result::Result<i64, i16>);

/// How many topics and partitions there are in all groups.
#[derive(Default)]
pub struct Size {
    topics: usize,
    partitions: usize,
}

impl Size {
    fn add(&mut self, partitions: usize) -> Result<()> {
        self.topics += 1;
        self.partitions += partitions;
        if self.topics > MAX_TOPICS {
            return Err(Error::Refused(format!("the consumer groups have more than {} topics: list some in the field topics", MAX_TOPICS)));
        }
        match self.partitions > MAX_PARTITIONS {
            true => Err(too_many_partitions()),
            false => Ok(()),
        }
    }
}

pub fn too_many_partitions() -> Error {
    Error::Refused(format!("the consumer groups have more than {} partitions: list fewer topics in the field topics", MAX_PARTITIONS))
}

impl<'c> Group<'c> {
    pub fn new(config: Config<'c>) -> Group<'c> {
        let (name, topics) = (config.text("group"), config.texts("topics"));
        Group { config, name, topics, committed: Vec::new() }
    }

    /// Returns the topics that count.
    pub fn counted(&self) -> Vec<&String> {
        match self.topics.is_empty() {
            true => self.committed.iter().map(|(topic, _)| topic).collect(),
            false => self.topics.iter().collect(),
        }
    }

    /// Asks the coordinator for the offsets.
    pub fn fetch(&mut self, brokers: &mut Brokers, size: &mut Size) -> Result<()> {
        let node = self.coordinator(brokers)?;
        let mut body = Vec::new();
        put_text(&mut body, &self.name);
        body.extend_from_slice(&(-1_i32).to_be_bytes()); // all topics
        let role = format!("the coordinator of the group {}", self.name);
        brokers.ask(&node, &role, &OFFSET_FETCH, &format!("OffsetFetch of the group {}", self.name), &body, |answer| self.read(answer, size))?.map_err(Error::Refused)
    }

    fn coordinator(&self, brokers: &mut Brokers) -> Result<Node> {
        let mut body = Vec::new();
        put_text(&mut body, &self.name);
        body.push(0); // the type of the coordinator: of a group
        let step = format!("FindCoordinator of the group {}", self.name);
        let (error, node) = brokers.ask_target(&FIND_COORDINATOR, &step, &body, |mut answer| {
            answer.i32()?; // throttle_time_ms
            let error = answer.i16()?;
            answer.text()?; // the text of the error
            let node = Node { id: answer.i32()?, host: answer.text()?, port: answer.i32()? };
            answer.end().map(|_| (error, node))
        })?;
        match error {
            0 => Ok(node),
            _ => Err(Error::Refused(format!("the coordinator of the group {} is not known: {}", self.name, reason(error)))),
        }
    }

    /// Reads the offsets, or returns why there are none.
    fn read(&mut self, mut answer: Answer, size: &mut Size) -> Result<std::result::Result<(), String>> {
        let mut exists = false;
        for _ in 0..answer.count(LEAST_TOPIC)? {
            let topic = answer.topic()?;
            let counts = self.topics.is_empty() || self.topics.contains(&topic);
            let mut partitions: Vec<Offset> = Vec::new();
            for _ in 0..answer.count(LEAST_PARTITION)? {
                let (number, offset) = (answer.i32()?, answer.i64()?);
                answer.text()?; // metadata of the consumer
                let error = answer.i16()?;
                if error == 0 && offset < 0 {
                    continue; // none is committed
                }
                exists = true;
                if counts {
                    let at = partitions.partition_point(|(n, _)| *n < number);
                    partitions.insert(at, (number, if error == 0 { Ok(offset) } else { Err(error) }));
                }
                if partitions.len() > MAX_PARTITIONS {
                    return Err(too_many_partitions());
                }
            }
            if !partitions.is_empty() {
                size.add(partitions.len())?;
                self.committed.push((topic, partitions));
            }
        }
        let error = answer.i16()?;
        answer.end()?;
        Ok(match error {
            0 if exists => Ok(()),
            0 => Err(format!("the group {} has committed no offset; it may not exist", self.name)),
            _ => Err(format!("the offsets of the group {}: {}", self.name, reason(error))),
        })
    }
}
