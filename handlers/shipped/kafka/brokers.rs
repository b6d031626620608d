//! The brokers of a cluster: the target, and others as far as the operator has granted them. Read ask first.

use crate::login;
use crate::wire::{Answer, Api, Broker, LIST_OFFSETS, OFFSET_FETCH};
use common::peer::{Error, Peer, Result};
use common::Findings;
use prober::Request;
use std::io;

/// A broker, as another one names it.
pub struct Node {
    pub id: i32,
    pub host: String,
    pub port: i32,
}

impl Node {
    /// Returns HOST:PORT. None if it is not the address of a server.
    fn address(&self) -> Option<String> {
        let all = |allowed: &[u8]| !self.host.is_empty() && self.host.bytes().all(|b| b.is_ascii_alphanumeric() || allowed.contains(&b));
        match (1..=65535).contains(&self.port) {
            true if all(b"-._") => Some(format!("{}:{}", self.host, self.port)),
            true if all(b":.") => Some(format!("[{}]:{}", self.host, self.port)), // IPv6
            _ => None,
        }
    }
}

/// A connection to another broker than the target.
struct Other<'a> {
    address: String,
    peer: Peer<'a>,
    number: i32, // of the last request
}

pub struct Brokers<'p, 'a> {
    target: Broker<'p, 'a>,
    host: String, // of the target
    port: i32,
    alone: bool,
    others: Vec<Other<'a>>,
    /// Whether a request to the target failed, after which there is no other.
    pub lost: bool,
}

impl<'p, 'a> Brokers<'p, 'a> {
    /// Returns the brokers of a cluster. alone says that it has only the target.
    pub fn new(target: Broker<'p, 'a>, request: &Request, alone: bool) -> Brokers<'p, 'a> {
        Brokers { target, host: request.host(), port: request.port().into(), alone, others: Vec::new(), lost: false }
    }

    pub fn findings(&mut self) -> &mut Findings {
        &mut self.target.peer.findings
    }

    /// Sends a request to the target, and reads the answer. step is its name in messages.
    pub fn ask_target<T>(&mut self, api: &Api, step: &str, body: &[u8], read: impl FnOnce(Answer) -> Result<T>) -> Result<T> {
        let result = self.target.ask(api, step, body).and_then(read);
        self.lost = result.is_err();
        result
    }

    /// Reports whether a node is the target.
    fn is_target(&self, node: &Node) -> bool {
        self.alone || (node.port == self.port && node.host.eq_ignore_ascii_case(&self.host))
    }

    /// Sends a request to a broker, and reads the answer. role says in messages what the broker is, such as "the coordinator of the group billing".
    pub fn ask<T>(&mut self, node: &Node, role: &str, api: &Api, step: &str, body: &[u8], read: impl FnOnce(Answer) -> Result<T>) -> Result<T> {
        if self.is_target(node) {
            return self.ask_target(api, step, body, read);
        }
        let address = node.address().ok_or_else(|| self.target.peer.protocol(format!("{} has the address {:?}, port {}", role, node.host, node.port)))?;
        let name = format!("broker {} ({})", node.id, address);
        let mut other = match self.others.iter().position(|other| other.address == address) {
            Some(i) => self.others.swap_remove(i),
            None => self.connect(address, &name, role)?,
        };
        let mut broker = Broker { peer: &mut other.peer, number: &mut other.number, place: format!(" at {}", name) };
        let result = broker.ask(api, step, body).and_then(read).map_err(|e| e.during(&name))?;
        self.others.push(other); // not after an error, because the rest of an answer may follow
        Ok(result)
    }

    fn connect(&mut self, address: String, name: &str, role: &str) -> Result<Other<'a>> {
        self.target.peer.awaits_or(&format!("no connection to {}, {}", name, role));
        let failed = |e| match e {
            Error::Io(e) => Error::Io(io::Error::new(e.kind(), format!("{}, {}: {}{}", name, role, e, advice(&e, &address)))),
            e => e.during(name),
        };
        let mut peer = self.target.peer.dial(&format!("tcp://{}", address)).map_err(failed)?;
        let mut number = 0;
        login::open(&mut Broker { peer: &mut peer, number: &mut number, place: format!(" at {}", name) }, &[OFFSET_FETCH, LIST_OFFSETS]).map_err(|e| e.during(name))?;
        Ok(Other { address, peer, number })
    }
}

/// Returns what an operator can do about a connection that is not granted; "" about others.
fn advice(e: &io::Error, address: &str) -> String {
    match e.kind() == io::ErrorKind::PermissionDenied && e.to_string().contains("granted") {
        true => format!(": write in plugins of prober.yaml: {{name: kafka, grants: [\"tcp://{}\"]}}", address),
        false => String::new(),
    }
}
