//! Rsync greets an rsync daemon, and either reads its list of modules or opens one module. It transfers nothing
//! and does not log in.

use prober::{config, net, progress, Outcome, Request};
use std::fmt;
use std::io::{self, Read, Write};
use std::time::Instant;

prober::plugin!(probe, validate);

/// The most bytes that are read, which is far more than a long list has.
const MAX_READ: u64 = 256 << 10;

/// The most characters of the server's text in a message.
const MAX_SHOWN: usize = 200;

struct Config {
    /// The module to open, or "".
    module: String,
    /// The modules that the list must have.
    modules: Vec<String>,
}

impl Config {
    fn read() -> prober::Result<Config> {
        Ok(Config { module: config::string("module", "")?, modules: config::strings("modules")? })
    }
}

fn validate() -> prober::Result<()> {
    let c = Config::read()?;
    match !c.module.is_empty() && !c.modules.is_empty() {
        true => Err("config.module: cannot be used with modules, because a connection has one of both".into()),
        false => Ok(()),
    }
}

/// Why the check failed, and its reason in the contract; "" if the host knows it.
struct Failure {
    text: String,
    reason: &'static str,
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        Failure { text: e.to_string(), reason: "" }
    }
}

fn refused(text: impl fmt::Display) -> Failure {
    Failure { text: text.to_string(), reason: "body" }
}

fn probe(_: &Request) -> prober::Result {
    let c = Config::read()?;
    Ok(ask(&c).unwrap_or_else(|f| Outcome::failure(f.text).reason(f.reason)))
}

fn ask(c: &Config) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let mut server = Server { lines: io::BufReader::new(net::dial_target()?.take(MAX_READ)) };
    progress("no greeting of the server");
    let greeting = server.line("the greeting")?;
    let seconds = begun.elapsed().as_secs_f64();
    let version = match greeting.strip_prefix("@RSYNCD: ") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => rest.split(' ').next().unwrap_or(rest).to_owned(),
        _ => return Err(Failure { text: format!("not rsync: the server sent {:?}", greeting), reason: "protocol" }),
    };
    let out = match c.module.as_str() {
        "" => list(&mut server, c, &version)?,
        module => open(&mut server, module, &version)?,
    };
    Ok(out.metric("greeting_seconds", "s", seconds))
}

fn list(server: &mut Server, c: &Config, version: &str) -> Result<Outcome, Failure> {
    server.request("#list")?;
    progress("no end of the list of modules");
    let mut found = Vec::new();
    loop {
        let line = server.line("the list of modules")?;
        match (line.as_str(), line.split_once('\t')) {
            ("@RSYNCD: EXIT", _) => break,
            (text, _) if text.starts_with("@ERROR") => return Err(refused(text)),
            (_, Some((name, _))) => found.push(name.trim_end().to_owned()),
            _ => {} // the message of the day
        }
    }
    if let Some(missing) = c.modules.iter().find(|want| !found.contains(want)) {
        return Err(refused(format!("the list of modules does not have {}", missing)));
    }
    let count = format!("{} {}", found.len(), if found.len() == 1 { "module" } else { "modules" });
    Ok(Outcome::success(format!("rsync protocol {}, {}", version, count)).metric("modules", "", found.len() as f64))
}

fn open(server: &mut Server, module: &str, version: &str) -> Result<Outcome, Failure> {
    server.request(module)?;
    progress(&format!("no answer to the module {}", module));
    loop {
        let line = server.line("the module")?;
        if line == "@RSYNCD: OK" {
            return Ok(Outcome::success(format!("rsync protocol {}, {} opens", version, module)));
        } else if line.starts_with("@RSYNCD: AUTHREQD ") {
            return Ok(Outcome::success(format!("rsync protocol {}, {} asks for a login", version, module)));
        } else if line.starts_with("@ERROR") {
            return Err(refused(line));
        }
    }
}

/// A connection to a server, of which a bounded number of bytes is read.
struct Server {
    lines: io::BufReader<io::Take<net::Conn>>,
}

impl Server {
    /// Sends the version of the client and a request.
    fn request(&mut self, text: &str) -> io::Result<()> {
        self.lines.get_mut().get_mut().write_all(format!("@RSYNCD: 31.0\n{}\n", text).as_bytes())
    }

    /// Returns the next line without its end, and at most MAX_SHOWN characters of it. what names it in messages.
    fn line(&mut self, what: &str) -> Result<String, Failure> {
        let mut line = Vec::new();
        io::BufRead::read_until(&mut self.lines, b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            let full = self.lines.get_ref().limit() == 0;
            let why = if full { "the server sent more than 256 KiB" } else { "the server closed the connection" };
            return Err(refused(format!("{}: {}", what, why)));
        }
        let text = String::from_utf8_lossy(&line);
        Ok(text.trim_end_matches('\r').chars().take(MAX_SHOWN).collect())
    }
}
