//! Messages of MongoDB's protocol, OP_MSG, and their commands.

use crate::bson::{self, Document, Value};
use common::peer::{shown, Error, Peer, Result, MAX_MESSAGE};
use std::convert::TryFrom;

const OP_MSG: u32 = 2013;
const HEADER: usize = 16;

/// A bit of the flags: a checksum is behind the sections.
const CHECKSUM: u32 = 1;

/// A connection to a server.
pub struct Server<'p, 'a> {
    pub peer: &'p mut Peer<'a>,
    number: u32, // of the last request
}

/// The document that answers a command.
pub struct Answer(Vec<u8>);

impl Answer {
    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<Value<'_>> {
        bson::field(&self.0, name)
    }

    /// Returns a text for messages; "" without one.
    pub fn text(&self, name: &str) -> String {
        text(&self.0, name)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some(Value::Bool(true))
    }
}

/// Returns a text of a document for messages; "" without one.
pub fn text(document: &[u8], name: &str) -> String {
    match bson::field(document, name) {
        Some(Value::Text(text)) => shown(text),
        _ => String::new(),
    }
}

impl<'p, 'a> Server<'p, 'a> {
    pub fn new(peer: &'p mut Peer<'a>) -> Server<'p, 'a> {
        Server { peer, number: 0 }
    }

    /// Runs a command in a database. step is its name in messages.
    pub fn run(&mut self, step: &str, database: &str, command: Document) -> Result<Answer> {
        self.number += 1;
        let command = command.text("$db", database).bytes();
        let size = HEADER + 5 + command.len();
        let head = [size as u32, self.number, 0, OP_MSG, 0].map(u32::to_le_bytes).concat();
        self.peer.awaits(step);
        self.peer.send(&[&head[..], &[0], &command].concat())?;
        let answer = self.receive(step)?;
        match answer.get("ok").and_then(Value::number) {
            Some(ok) if ok == 1.0 => Ok(answer),
            Some(_) => Err(Error::Refused(format!("{}: {} ({})", step, answer.text("errmsg"), answer.text("codeName")))),
            None => Err(self.malformed(step)),
        }
    }

    pub fn malformed(&self, step: &str) -> Error {
        self.peer.protocol(format!("a malformed answer to {}", step))
    }

    fn receive(&mut self, step: &str) -> Result<Answer> {
        let start = self.peer.exact(4)?;
        let size = word(&start, 0).and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
        if !(HEADER + 10..=MAX_MESSAGE).contains(&size) {
            return Err(self.peer.unexpected(&start));
        }
        let rest = self.peer.exact(size - 4)?;
        let (to, code, flags) = match (word(&rest, 4), word(&rest, 8), word(&rest, 12)) {
            (Some(to), Some(code), Some(flags)) => (to, code, flags),
            _ => return Err(self.malformed(step)),
        };
        if code != OP_MSG {
            return Err(self.peer.protocol(format!("a message of the code {}, want {}", code, OP_MSG)));
        }
        if to != self.number {
            return Err(self.peer.protocol(format!("an answer to request {}, want {}", to, self.number)));
        }
        let end = match flags {
            0 => rest.len(),
            CHECKSUM => rest.len().saturating_sub(4),
            _ => return Err(self.malformed(step)),
        };
        match rest.get(HEADER..end) {
            Some([0, document @ ..]) if bson::visit(document, |_, _| {}).is_some() => Ok(Answer(document.to_vec())),
            _ => Err(self.malformed(step)),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?))
}
