//! The plugin mqtt: connects to a broker with MQTT 3.1.1, sends a ping, and checks a message of a topic or
//! that a message comes back. Read talk first.

use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use prober::Request;
use std::time::Instant;

mod packet;

use packet::{Packet, CONNACK, CONNECT, DISCONNECT, PINGREQ, PINGRESP, PUBLISH, SUBACK, SUBSCRIBE};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "MQTT", tls_first: true };

/// The most bytes of a message that are shown.
const MAX_SHOWN: usize = 80;

/// The number of the packets that subscribe.
const SUBSCRIPTION: [u8; 2] = [0, 1];

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    if config.get("password").is_some() && config.get("username").is_none() {
        return Err("password: needs a username".into());
    }
    let message = Config(config.get("message").unwrap_or("{}"));
    for (field, topic) in [("roundTrip", config.text("roundTrip")), ("message.topic", message.text("topic"))] {
        if topic.contains('\0') || field == "roundTrip" && topic.contains(['#', '+'].as_slice()) {
            return Err(format!("{}: {:?} is not a topic", field, topic).into());
        }
    }
    common::validate_limits(&config)
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    connect(peer)?;
    let mut said = "connected".to_string();
    let topic = peer.config.text("roundTrip");
    if !topic.is_empty() {
        round_trip(peer, &topic)?;
        said = format!("a message to {:?} came back", topic);
    }
    if let Some(message) = peer.config.get("message").map(Config) {
        let text = expect(peer, &message)?;
        said = format!("{} has {:?}", message.text("topic"), text);
    }
    let start = Instant::now();
    peer.awaits("a ping");
    packet::send(peer, PINGREQ, &[])?;
    wait_for(peer, PINGRESP)?;
    peer.findings.metric("ping_seconds", "s", start.elapsed().as_secs_f64());
    let _ = packet::send(peer, DISCONNECT, &[]);
    Ok(said)
}

fn random_text() -> Result<String> {
    let mut random = [0; 8];
    prober::random(&mut random)?;
    Ok(random.iter().map(|b| format!("{:02x}", b)).collect())
}

fn connect(peer: &mut Peer) -> Result<()> {
    let start = Instant::now();
    let (mut id, username) = (peer.config.text("clientId"), peer.config.text("username"));
    if id.is_empty() {
        id = "prober-".to_string() + &random_text()?[..12];
    }
    let mut flags = 0x02; // a clean session
    let mut payload = packet::text(&id);
    for (name, value, flag) in [("username", username, 0x80), ("password", peer.config.text("password"), 0x40)] {
        if peer.config.get(name).is_some() {
            flags |= flag;
            payload.extend_from_slice(&packet::text(&value));
        }
    }
    let head = [&packet::text("MQTT")[..], &[4, flags, 0, 60]].concat();
    peer.awaits("CONNECT");
    packet::send(peer, CONNECT, &[head, payload].concat())?;
    let answer = packet::receive(peer, &[CONNACK])?;
    match (answer.kind, answer.body.as_slice()) {
        (CONNACK, [_, 0]) => {}
        (CONNACK, [_, code]) => return Err(Error::Refused(format!("the broker refuses the connection: {}", refusal(*code)))),
        _ => return Err(peer.protocol("an unexpected answer to CONNECT")),
    }
    peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    Ok(())
}

fn refusal(code: u8) -> String {
    match code {
        1 => "unacceptable version of the protocol".into(),
        2 => "client identifier rejected".into(),
        3 => "server unavailable".into(),
        4 => "bad user name or password".into(),
        5 => "not authorized".into(),
        _ => format!("code {}", code),
    }
}

/// Waits for a packet of a kind. Messages meanwhile are ignored.
fn wait_for(peer: &mut Peer, kind: u8) -> Result<Packet> {
    loop {
        let packet = packet::receive(peer, &[kind, PUBLISH])?;
        if packet.kind == kind {
            return Ok(packet);
        }
    }
}

/// Publishes a message, and waits until it comes back.
fn round_trip(peer: &mut Peer, topic: &str) -> Result<()> {
    subscribe(peer, topic)?;
    if wait_for(peer, SUBACK)?.body != [SUBSCRIPTION[0], SUBSCRIPTION[1], 0] {
        return Err(Error::Refused(format!("the broker refuses to subscribe to {:?}", topic)));
    }
    let start = Instant::now();
    let text = "prober ".to_string() + &random_text()?;
    peer.awaits_or(&format!("the message to {:?} did not come back", topic));
    packet::send(peer, PUBLISH, &[packet::text(topic), text.as_bytes().to_vec()].concat())?;
    loop {
        let packet = wait_for(peer, PUBLISH)?;
        if matches!(packet.message(), Some((_, payload)) if payload == text.as_bytes()) {
            peer.findings.metric("roundtrip_seconds", "s", start.elapsed().as_secs_f64());
            return Ok(());
        }
    }
}

fn subscribe(peer: &mut Peer, topic: &str) -> Result<()> {
    peer.awaits("SUBSCRIBE");
    packet::send(peer, SUBSCRIBE, &[&SUBSCRIPTION[..], &packet::text(topic), &[0]].concat())
}

/// Waits for a message of a topic, such as its retained one, that has the wanted text.
fn expect(peer: &mut Peer, message: &Config) -> Result<String> {
    let (topic, want) = (message.text("topic"), message.text("contains"));
    subscribe(peer, &topic)?;
    peer.awaits_or(&format!("no message of {:?}", topic));
    loop {
        let packet = packet::receive(peer, &[PUBLISH, SUBACK])?;
        match (packet.kind, packet.body.as_slice()) {
            (SUBACK, [_, _, 0]) => {}
            (SUBACK, _) => return Err(Error::Refused(format!("the broker refuses to subscribe to {:?}", topic))),
            _ => {
                let (name, payload) = packet.message().ok_or_else(|| peer.protocol("a malformed message"))?;
                let seen = shown(&payload[..payload.len().min(MAX_SHOWN)]);
                if packet::matches(&topic, name) && String::from_utf8_lossy(payload).contains(&want) {
                    return Ok(seen);
                }
                peer.awaits_or(&format!("no message of {:?} contains {:?}; the last one was {:?}", topic, want, seen));
            }
        }
    }
}
