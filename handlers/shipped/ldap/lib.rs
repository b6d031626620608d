//! The plugin ldap: binds to an LDAP server and searches, by default the root DSE. Read talk first.

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use common::{bounds, validate_limits};
use prober::Request;
use std::time::Instant;

mod ber;
mod filter;

use ber::{element, small, text, Reader, ENUMERATED, INTEGER, OCTETS, SEQUENCE};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "LDAP", tls_first: true };

/// The tags of requests and answers.
const BIND: u8 = 0x60;
const BIND_ANSWER: u8 = 0x61;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const REFERENCE: u8 = 0x73;
const EXTENDED: u8 = 0x77;
const EXTENDED_ANSWER: u8 = 0x78;

const START_TLS: &str = "1.3.6.1.4.1.1466.20037";

const SIZE_LIMIT_EXCEEDED: u32 = 4;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if config.flag("tls") && config.flag("startTLS") {
        return Err("startTLS: cannot be used with tls".into());
    }
    if config.get("bindDN").is_some() != config.get("password").is_some() {
        return Err("bindDN: needs a password, and a password a bindDN".into());
    }
    filter::parse(&config.text("filter")).map_err(|why| format!("filter: {}", why))?;
    validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let mut session = Session { peer, number: 0 };
    if session.peer.config.flag("startTLS") {
        session.start_tls()?;
    }
    session.bind()?;
    let said = session.search()?;
    session.number += 1;
    let _ = session.send(&element(UNBIND, &[]));
    Ok(said)
}

struct Session<'a, 'b> {
    peer: &'a mut Peer<'b>,
    number: u8, // of the last request
}

impl Session<'_, '_> {
    fn request(&mut self, what: &str, operation: &[u8]) -> Result<()> {
        self.number += 1;
        self.peer.awaits(what);
        self.send(operation)
    }

    fn send(&mut self, operation: &[u8]) -> Result<()> {
        let message = [small(INTEGER, self.number), operation.to_vec()].concat();
        self.peer.send(&element(SEQUENCE, &message))
    }

    /// Returns the tag and the content of the next answer to the last request.
    fn receive(&mut self) -> Result<(u8, Vec<u8>)> {
        let message = ber::read(self.peer, SEQUENCE)?;
        let mut r = Reader(&message);
        let number = r.number(INTEGER).ok_or_else(|| self.peer.protocol("a malformed message"))?;
        let (tag, content) = r.next().ok_or_else(|| self.peer.protocol("a malformed message"))?;
        if number == 0 && tag == EXTENDED_ANSWER {
            let why = Answer::parse(content).map_or(String::new(), |a| a.to_string());
            return Err(Error::Refused(format!("the server ends the connection: {}", why)));
        }
        if number != u32::from(self.number) {
            return Err(self.peer.protocol(format!("an answer to request {}, want {}", number, self.number)));
        }
        Ok((tag, content.to_vec()))
    }

    /// Returns the result of the last request, whose answer has a tag.
    fn result(&mut self, want: u8) -> Result<Answer> {
        let (tag, content) = self.receive()?;
        if tag != want {
            return Err(self.peer.protocol(format!("an answer with the tag {:#04x}, want {:#04x}", tag, want)));
        }
        Answer::parse(&content).ok_or_else(|| self.peer.protocol("a malformed result"))
    }

    fn start_tls(&mut self) -> Result<()> {
        self.request("StartTLS", &element(EXTENDED, &element(0x80, START_TLS.as_bytes())))?;
        let answer = self.result(EXTENDED_ANSWER)?;
        if answer.code != 0 {
            return Err(Error::Tls(format!("the server does not start TLS: {}", answer)));
        }
        self.peer.start_tls()
    }

    fn bind(&mut self) -> Result<()> {
        let (name, password) = (self.peer.config.text("bindDN"), self.peer.config.text("password"));
        let start = Instant::now();
        let content = [small(INTEGER, 3), text(&name), element(0x80, password.as_bytes())].concat();
        self.request("the bind", &element(BIND, &content))?;
        let answer = self.result(BIND_ANSWER)?;
        if answer.code != 0 {
            return Err(Error::Refused(format!("the bind: {}", answer)));
        }
        self.peer.findings.metric("bind_seconds", "s", start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Searches, and checks the number of entries.
    fn search(&mut self) -> Result<String> {
        let start = Instant::now();
        let request = search_request(self.peer.config)?;
        self.request("the search", &request)?;
        let mut entries = 0;
        let answer = loop {
            let (tag, content) = self.receive()?;
            match tag {
                ENTRY => entries += 1,
                REFERENCE => {}
                SEARCH_DONE => break Answer::parse(&content).ok_or_else(|| self.peer.protocol("a malformed result"))?,
                _ => return Err(self.peer.protocol(format!("an answer with the tag {:#04x} to the search", tag))),
            }
        };
        if answer.code != 0 && answer.code != SIZE_LIMIT_EXCEEDED {
            return Err(Error::Refused(format!("the search: {}", answer)));
        }
        self.peer.findings.metric("search_seconds", "s", start.elapsed().as_secs_f64());
        self.peer.findings.metric("search_entries", "", f64::from(entries));
        let config = self.peer.config;
        if config.get("entries").is_none() && entries == 0 {
            return Err(Error::Refused("the search found no entry".into()));
        }
        bounds::check(&mut self.peer.findings, config, "entries", "the number of entries", &entries.to_string());
        Ok(format!("bound; the search found {} {}", entries, if entries == 1 { "entry" } else { "entries" }))
    }
}

fn search_request(config: &Config) -> Result<Vec<u8>> {
    let scope = match config.text("scope").as_str() {
        "one" => 1,
        "subtree" => 2,
        _ => 0,
    };
    let filter = filter::parse(&config.text("filter")).map_err(Error::Refused)?;
    let fields = [
        text(&config.text("baseDN")),
        small(ENUMERATED, scope),
        small(ENUMERATED, 0), // aliases are not followed
        small(INTEGER, 0),    // no limit of the size
        small(INTEGER, 0),    // nor of the time
        element(0x01, &[0]),  // values too
        filter,
        element(SEQUENCE, &text("1.1")), // no attributes
    ];
    Ok(element(SEARCH, &fields.concat()))
}

/// The result of a request.
struct Answer {
    code: u32,
    text: String,
}

impl Answer {
    fn parse(content: &[u8]) -> Option<Answer> {
        let mut r = Reader(content);
        let code = r.number(ENUMERATED)?;
        r.expect(OCTETS)?; // the matched name
        Some(Answer { code, text: shown(r.expect(OCTETS)?) })
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.code {
            1 => "operations error",
            2 => "protocol error",
            7 => "authentication method not supported",
            8 => "stronger authentication required",
            13 => "confidentiality required",
            32 => "no such object",
            48 => "inappropriate authentication",
            49 => "invalid credentials",
            50 => "insufficient access rights",
            51 => "busy",
            52 => "unavailable",
            53 => "unwilling to perform",
            _ => "refused",
        };
        write!(f, "{} ({})", name, self.code)?;
        if self.text.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.text)
    }
}
