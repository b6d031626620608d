//! How many messages consumer groups have not consumed. Read check first.

use crate::brokers::Brokers;
use crate::ends::{Ends, Topic};
use crate::groups::{Group, Offset, Size};
use crate::metadata::{topic_failure, Faulty};
use crate::wire::{reason, Broker};
use common::config::Config;
use common::peer::Result;
use common::{bounds, Findings};
use prober::Request;

/// The most causes that a message has.
const MAX_CAUSES: usize = 5;

pub fn validate(config: &Config) -> prober::Result<()> {
    let names: Vec<String> = config.objects("consumerGroups").iter().map(|group| group.text("group")).collect();
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        Some((i, name)) => Err(format!("consumerGroups[{}]: the group {} is there twice", i, name).into()),
        None => Ok(()),
    }
}

/// Checks the groups of the config. Returns text for the message of a Success. alone says that the cluster has only
/// one broker.
pub fn check(target: Broker, request: &Request, alone: bool) -> Result<String> {
    let config = target.peer.config;
    let mut brokers = Brokers::new(target, request, alone);
    let (mut groups, mut size) = (Vec::new(), Size::default());
    for mut group in config.objects("consumerGroups").into_iter().map(Group::new) {
        match group.fetch(&mut brokers, &mut size) {
            Ok(()) => groups.push(group),
            Err(e) if brokers.lost => return Err(e),
            Err(e) => e.add_to(brokers.findings()),
        }
    }
    let mut topics = Vec::new();
    for topic in groups.iter().flat_map(Group::counted) {
        if !topics.contains(topic) {
            topics.push(topic.clone());
        }
    }
    let ends = Ends::read(&mut brokers, &topics)?;
    let mut said = Vec::new();
    for group in &groups {
        let mut lag = Lag::default();
        lag.add_all(group, &ends);
        lag.report(group, &ends, brokers.findings());
        said.push(format!("{} {}", group.name, lag.total));
    }
    Ok(format!("; lag: {}", said.join(", ")))
}

/// Why the lag of a partition is not known.
#[derive(PartialEq)]
enum Cause {
    /// An error of OffsetFetch.
    Offset(i16),
    /// A cause of Ends.
    End(usize),
    Other,
}

/// The lag of a group.
#[derive(Default)]
struct Lag {
    total: i64,
    most: i64, // of a partition, whose name follows
    most_at: String,
    failures: Vec<String>, // of topics
    unknown: Vec<(Cause, Faulty)>,
    uncommitted: Faulty,
    beyond: Faulty, // whose offset is beyond the end
}

impl Lag {
    fn add_all(&mut self, group: &Group, ends: &Ends) {
        for name in group.counted() {
            match ends.topic(name) {
                Some(topic) if topic.error == 0 => self.add_topic(group, name, topic),
                Some(topic) => self.failures.push(topic_failure(name, topic.error)),
                None => self.failures.push(format!("the broker does not answer for the topic {}", name)),
            }
        }
    }

    /// Adds the partitions of a topic: all, or those with an offset if the config does not list the topic.
    fn add_topic(&mut self, group: &Group, name: &str, topic: &Topic) {
        let committed: &[Offset] = group.committed.iter().find(|(topic, _)| topic == name).map_or(&[], |(_, offsets)| offsets);
        if group.topics.is_empty() {
            for (number, offset) in committed {
                self.add(name, *number, Some(*offset), topic.end(*number));
            }
            return;
        }
        for p in &topic.partitions {
            let offset = committed.binary_search_by_key(&p.number, |(number, _)| *number).ok().map(|at| committed[at].1);
            self.add(name, p.number, offset, p.end);
        }
    }

    fn add(&mut self, topic: &str, number: i32, offset: Option<std::result::Result<i64, i16>>, end: std::result::Result<i64, usize>) {
        match (offset, end) {
            (Some(Err(error)), _) => self.add_unknown(Cause::Offset(error), topic, number),
            (_, Err(cause)) => self.add_unknown(Cause::End(cause), topic, number),
            (None, Ok(0)) => {} // no message was ever there
            (None, Ok(_)) => self.uncommitted.add(topic, number),
            (Some(Ok(offset)), Ok(end)) if offset > end => self.beyond.add(topic, number),
            (Some(Ok(offset)), Ok(end)) => {
                let behind = end - offset;
                self.total = self.total.saturating_add(behind);
                if behind > self.most {
                    self.most = behind;
                    self.most_at = format!("{}-{}", topic, number);
                }
            }
        }
    }

    fn add_unknown(&mut self, cause: Cause, topic: &str, number: i32) {
        let cause = if self.unknown.len() < MAX_CAUSES || self.unknown.iter().any(|(c, _)| *c == cause) { cause } else { Cause::Other };
        match self.unknown.iter_mut().find(|(c, _)| *c == cause) {
            Some((_, at)) => at.add(topic, number),
            None => {
                let mut at = Faulty::default();
                at.add(topic, number);
                self.unknown.push((cause, at));
            }
        }
    }

    /// Reports the lag, if that of all partitions is known.
    fn report(&self, group: &Group, ends: &Ends, findings: &mut Findings) {
        let name = &group.name;
        let mut failures: Vec<String> = self.failures.iter().map(|why| format!("the group {}: {}", name, why)).collect();
        for (cause, at) in &self.unknown {
            failures.push(match cause {
                Cause::Offset(error) => format!("the offset of the group {} in {}: {}", name, at, reason(*error)),
                Cause::End(cause) => format!("the lag of the group {} is not known in {}: {}", name, at, ends.cause(*cause)),
                Cause::Other => format!("the lag of the group {} is not known in {}", name, at),
            });
        }
        if self.uncommitted.count > 0 {
            failures.push(format!("the group {} has committed no offset in {}", name, self.uncommitted));
        }
        if self.beyond.count > 0 {
            findings.warn(format!("the offset of the group {} is beyond the end of {}", name, self.beyond));
        }
        if !failures.is_empty() {
            return failures.into_iter().for_each(|why| findings.fail(why));
        }
        let labels = [("group", name.as_str())];
        findings.labelled("consumer_lag", "", self.total as f64, &labels);
        findings.labelled("consumer_partition_lag", "", self.most as f64, &labels);
        let most = if self.most > 0 { format!(" (most in {}: {})", self.most_at, self.most) } else { String::new() };
        bounds::check(findings, &group.config, "lag", &format!("the lag of the group {}{}", name, most), &self.total.to_string());
        let what = format!("the lag of the group {} in a partition{}", name, most.replace(&format!(": {}", self.most), ""));
        bounds::check(findings, &group.config, "partitionLag", &what, &self.most.to_string());
    }
}
