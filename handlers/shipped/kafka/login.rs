//! Opens a conversation with a broker: which requests it has, and a login by SASL.

use crate::wire::{self, put_count, put_text, reason, Api, Broker, API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE};
use common::config::Config;
use common::peer::{Error, Result};
use common::scram::{Mechanism, Scram, SHA256, SHA512};

/// The bytes of an entry of ApiVersions.
const ENTRY: usize = 6;

/// SASL_HANDSHAKE's error of a mechanism that the broker does not have.
const UNSUPPORTED_MECHANISM: i16 = 33;

/// Checks that the broker has the versions of all requests, and logs in if the config has a user.
pub fn open(broker: &mut Broker, apis: &[Api]) -> Result<()> {
    let logs_in = broker.peer.config.get("username").is_some();
    let sasl = [SASL_HANDSHAKE, SASL_AUTHENTICATE];
    let wanted: Vec<&Api> = apis.iter().chain(sasl.iter().filter(|_| logs_in)).collect();
    check_versions(broker, &wanted)?;
    match logs_in {
        true => log_in(broker),
        false => Ok(()),
    }
}

fn check_versions(broker: &mut Broker, wanted: &[&Api]) -> Result<()> {
    let mut answer = broker.ask(&API_VERSIONS, API_VERSIONS.name, &[])?;
    let error = answer.i16()?;
    if error != 0 {
        return Err(Error::Refused(format!("ApiVersions: {}", reason(error))));
    }
    let mut ranges = vec![None; wanted.len()];
    for _ in 0..answer.count(ENTRY)? {
        let (key, low, high) = (answer.i16()?, answer.i16()?, answer.i16()?);
        if let Some(i) = wanted.iter().position(|api| api.key == key) {
            ranges[i] = Some((low, high));
        }
    }
    answer.end()?;
    for (api, range) in wanted.iter().zip(ranges) {
        match range {
            Some((low, high)) if (low..=high).contains(&api.version) => {}
            Some((low, high)) => return Err(Error::Refused(format!("the broker has the versions {} to {} of {}, want {}", low, high, api.name, api.version))),
            None => return Err(Error::Refused(format!("the broker does not have {}", api.name))),
        }
    }
    Ok(())
}

fn log_in(broker: &mut Broker) -> Result<()> {
    let mechanism = mechanism_of(broker.peer.config);
    let (user, password) = (broker.peer.config.text("username"), broker.peer.config.text("password"));
    shake_hands(broker, &mechanism)?;
    let step = format!("the login by {}", mechanism);
    match mechanism.as_str() {
        "SCRAM-SHA-256" => scram(broker, &step, &SHA256, &user, &password),
        "SCRAM-SHA-512" => scram(broker, &step, &SHA512, &user, &password),
        _ => send_token(broker, &step, format!("\0{}\0{}", user, password).as_bytes()).map(|_| ()),
    }
}

fn mechanism_of(config: &Config) -> String {
    Some(config.text("mechanism")).filter(|m| !m.is_empty()).unwrap_or_else(|| SHA512.name.into())
}

/// Agrees on a mechanism.
fn shake_hands(broker: &mut Broker, mechanism: &str) -> Result<()> {
    let mut body = Vec::new();
    put_text(&mut body, mechanism);
    let mut answer = broker.ask(&SASL_HANDSHAKE, SASL_HANDSHAKE.name, &body)?;
    let error = answer.i16()?;
    let mut offered = Vec::new();
    for _ in 0..answer.count(2)?.min(16) {
        offered.push(answer.text()?);
    }
    match error {
        0 => answer.end(),
        UNSUPPORTED_MECHANISM => Err(Error::Refused(format!("the broker does not offer the mechanism {}; it has {}", mechanism, offered.join(", ")))),
        _ => Err(Error::Refused(format!("SaslHandshake: {}", wire::reason(error)))),
    }
}

fn scram(broker: &mut Broker, step: &str, mechanism: &'static Mechanism, user: &str, password: &str) -> Result<()> {
    let scram = Scram::new(mechanism, user)?;
    let challenge = send_token(broker, step, scram.first().as_bytes())?;
    let proof = scram.prove(&String::from_utf8_lossy(&challenge), password).ok_or_else(|| broker.peer.protocol("a malformed challenge of SCRAM"))?;
    match send_token(broker, step, proof.message.as_bytes())? == proof.wanted.as_bytes() {
        true => Ok(()),
        false => Err(Error::Refused("the broker does not prove that it knows the password".into())),
    }
}

/// Sends a message of a login, and returns the answer.
fn send_token(broker: &mut Broker, step: &str, token: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    put_count(&mut body, token.len());
    body.extend_from_slice(token);
    let mut answer = broker.ask(&SASL_AUTHENTICATE, step, &body)?;
    let (error, text) = (answer.i16()?, answer.text()?);
    let token = answer.blob()?;
    answer.end()?;
    match error {
        0 => Ok(token),
        _ if text.is_empty() => Err(Error::Refused(format!("{}: {}", step, reason(error)))),
        _ => Err(Error::Refused(format!("{}: {}", step, text))),
    }
}
