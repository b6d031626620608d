//! The plugin amqp: logs in to a broker with AMQP 0-9-1, such as RabbitMQ, and checks the messages and consumers of
//! a queue. Read talk first.

use common::bounds;
use common::config::Config;
use common::peer::{converse, shown, Error, Peer, Protocol, Result};
use prober::Request;
use std::time::Instant;

mod frame;

use frame::{put_long, put_short, Fields, Reply};

prober::plugin!(probe, validate);

const PROTOCOL: Protocol = Protocol { name: "AMQP", tls_first: true };

const MECHANISM: &str = "PLAIN";

/// The channel of the queue.
const CHANNEL: u16 = 1;

/// The size of frames where the server proposes none, or more.
const FRAME: u32 = 128 << 10;

/// The bit of a declaration that creates no queue.
const PASSIVE: u8 = 1;

/// The longest short string.
const MAX_SHORT: usize = 255;

fn validate() -> prober::Result<()> {
    let request = Request::read()?;
    let config = Config::of(&request);
    common::validate_login(&config, &["vhost", "queue"])?;
    common::validate_strings(&config, &["username", "password"])?;
    for (name, value) in [("vhost", config.text("vhost")), ("queue.name", queue(&config).text("name"))] {
        if value.len() > MAX_SHORT {
            return Err(format!("{}: longer than {} bytes", name, MAX_SHORT).into());
        }
    }
    common::validate_limits(&config)
}

fn queue<'a>(config: &Config<'a>) -> Config<'a> {
    Config(config.get("queue").unwrap_or("{}"))
}

fn probe(request: &Request) -> prober::Result {
    converse(&PROTOCOL, request, talk)
}

fn talk(peer: &mut Peer) -> Result<String> {
    let start = Instant::now();
    let greeting = greet(peer)?;
    if peer.config.get("username").is_none() {
        return Ok(format!("{} answers, and asks for a login by {}", greeting.server, greeting.mechanisms));
    }
    if !greeting.mechanisms.split(' ').any(|m| m == MECHANISM) {
        return Err(Error::Refused(format!("the server does not offer a login by PLAIN; it has {}", greeting.mechanisms)));
    }
    log_in(peer)?;
    peer.findings.metric("login_seconds", "s", start.elapsed().as_secs_f64());
    let mut said = format!("{} answers", greeting.server);
    if peer.config.get("queue").is_some() {
        said += &check_queue(peer)?;
    }
    peer.awaits("Connection.Close");
    frame::send(peer, 0, frame::CLOSE, &close_arguments())?;
    receive(peer, 0, frame::CLOSE_OK)?;
    Ok(said)
}

/// What a server says of itself.
struct Greeting {
    server: String,
    mechanisms: String,
}

fn greet(peer: &mut Peer) -> Result<Greeting> {
    peer.awaits("the header of AMQP");
    peer.send(frame::HEADER)?;
    let arguments = receive(peer, 0, frame::START)?;
    let parsed = || -> Option<Greeting> {
        let mut fields = Fields(&arguments);
        fields.take(2)?; // the version
        let [product, version] = frame::texts(fields.long()?, ["product", "version"])?;
        let mechanisms = shown(fields.long()?);
        fields.long()?; // locales
        let server = if product.is_empty() { "the server".into() } else { format!("{} {}", product, version).trim_end().into() };
        Some(Greeting { server, mechanisms })
    };
    parsed().ok_or_else(|| peer.protocol("a malformed Connection.Start"))
}

/// Logs in, and opens the virtual host.
fn log_in(peer: &mut Peer) -> Result<()> {
    let (user, password) = (peer.config.text("username"), peer.config.text("password"));
    let mut arguments = Vec::new();
    put_long(&mut arguments, &properties());
    put_short(&mut arguments, MECHANISM);
    put_long(&mut arguments, format!("\0{}\0{}", user, password).as_bytes());
    put_short(&mut arguments, "en_US");
    peer.awaits("the login");
    frame::send(peer, 0, frame::START_OK, &arguments)?;
    let tune = receive(peer, 0, frame::TUNE)?;
    let mut fields = Fields(&tune);
    let proposed = match (fields.u16(), fields.u32(), fields.u16()) {
        (Some(_), Some(frame), Some(_)) => frame,
        _ => return Err(peer.protocol("a malformed Connection.Tune")),
    };
    let frame = if (1..FRAME).contains(&proposed) { proposed } else { FRAME };
    let no_heartbeats = 0_u16;
    frame::send(peer, 0, frame::TUNE_OK, &[&CHANNEL.to_be_bytes()[..], &frame.to_be_bytes(), &no_heartbeats.to_be_bytes()].concat())?;
    let vhost = Some(peer.config.text("vhost")).filter(|v| !v.is_empty()).unwrap_or_else(|| "/".into());
    let mut arguments = Vec::new();
    put_short(&mut arguments, &vhost);
    arguments.extend_from_slice(&[0, 0]);
    peer.awaits("Connection.Open");
    frame::send(peer, 0, frame::OPEN, &arguments)?;
    receive(peer, 0, frame::OPEN_OK).map(|_| ())
}

/// Returns the table of the client, which asks for the reason of a login that is refused.
fn properties() -> Vec<u8> {
    let mut capabilities = Vec::new();
    put_short(&mut capabilities, "authentication_failure_close");
    capabilities.extend_from_slice(b"t\x01");
    let mut table = Vec::new();
    put_short(&mut table, "product");
    table.push(b'S');
    put_long(&mut table, b"prober");
    put_short(&mut table, "capabilities");
    table.push(b'F');
    put_long(&mut table, &capabilities);
    table
}

/// Declares the queue passively, and checks it. It returns what a Success says of the queue.
fn check_queue(peer: &mut Peer) -> Result<String> {
    let config = queue(peer.config);
    let name = config.text("name");
    peer.awaits("Channel.Open");
    frame::send(peer, CHANNEL, frame::CHANNEL_OPEN, &[0])?;
    receive(peer, CHANNEL, frame::CHANNEL_OPEN_OK)?;
    let mut arguments = vec![0, 0];
    put_short(&mut arguments, &name);
    arguments.push(PASSIVE);
    put_long(&mut arguments, &[]); // a table
    peer.awaits(&format!("the question for the queue {}", name));
    frame::send(peer, CHANNEL, frame::QUEUE_DECLARE, &arguments)?;
    let arguments = match frame::receive(peer, CHANNEL, frame::QUEUE_DECLARE_OK)? {
        Reply::Arguments(arguments) => arguments,
        Reply::ChannelClosed(why) => {
            peer.findings.fail_for("body", format!("the queue {}: {}", name, why));
            frame::send(peer, CHANNEL, frame::CHANNEL_CLOSE_OK, &[])?;
            return Ok(String::new());
        }
    };
    let mut fields = Fields(&arguments);
    let (messages, consumers) = match (fields.short(), fields.u32(), fields.u32()) {
        (Some(_), Some(messages), Some(consumers)) => (messages, consumers),
        _ => return Err(peer.protocol("a malformed Queue.Declare-Ok")),
    };
    for (field, value) in [("messages", messages), ("consumers", consumers)] {
        peer.findings.metric(&format!("queue_{}", field), "", value.into());
        bounds::check(&mut peer.findings, &config, field, &format!("the number of {} of the queue {}", field, name), &value.to_string());
    }
    Ok(format!("; the queue {} has {} and {}", name, counted(messages, "message"), counted(consumers, "consumer")))
}

fn counted(n: u32, what: &str) -> String {
    format!("{} {}{}", n, what, if n == 1 { "" } else { "s" })
}

/// Returns the arguments of a close that nothing has caused.
fn close_arguments() -> Vec<u8> {
    let mut arguments = 200_u16.to_be_bytes().to_vec();
    put_short(&mut arguments, "OK");
    arguments.extend_from_slice(&[0; 4]);
    arguments
}

/// Reads a method, for which the channel must stay open, and returns its arguments.
fn receive(peer: &mut Peer, channel: u16, method: frame::Method) -> Result<Vec<u8>> {
    match frame::receive(peer, channel, method)? {
        Reply::Arguments(arguments) => Ok(arguments),
        Reply::ChannelClosed(why) => Err(Error::Refused(format!("the server closes the channel: {}", why))),
    }
}
