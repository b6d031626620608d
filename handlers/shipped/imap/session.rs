//! Commands of IMAP and their responses, as in RFC 3501.

use common::peer::{shown, Error, Peer, Result};

/// The most lines of a response.
const MAX_LINES: usize = 1000;

/// The most bytes of a literal.
const MAX_LITERAL: usize = 16 << 10;

pub struct Session<'a, 'b> {
    pub peer: &'a mut Peer<'b>,
    tags: u32,
}

pub struct Greeting {
    pub text: String,
    /// Whether the server knows the client without a login.
    pub logged_in: bool,
}

/// A line of a server.
enum Line {
    /// "+": the client may go on.
    Continue,
    /// The untagged lines, without "* ".
    Untagged(String),
    /// The end of a command: its tag, and "OK", "NO" or "BAD" with a text.
    Tagged(String, String),
}

impl<'a, 'b> Session<'a, 'b> {
    pub fn new(peer: &'a mut Peer<'b>) -> Session<'a, 'b> {
        Session { peer, tags: 0 }
    }

    pub fn greeting(&mut self) -> Result<Greeting> {
        self.peer.awaits_greeting();
        let text = match self.line()? {
            Line::Untagged(text) => text,
            Line::Continue => return Err(self.peer.unexpected(b"+ ")),
            Line::Tagged(tag, text) => return Err(self.peer.protocol(format!("it sent {:?}", shown(format!("{} {}", tag, text).as_bytes())))),
        };
        let (word, rest) = split(&text);
        match word.to_ascii_uppercase().as_str() {
            "OK" => Ok(Greeting { text: without_code(rest), logged_in: false }),
            "PREAUTH" => Ok(Greeting { text: without_code(rest), logged_in: true }),
            "BYE" => Err(refused("the greeting", &text)),
            _ => Err(self.peer.protocol(format!("it sent {:?}", shown(format!("* {}", text).as_bytes())))),
        }
    }

    /// Sends a command, and returns its untagged lines. name is its name in messages.
    pub fn ask(&mut self, command: &str, name: &str) -> Result<Vec<String>> {
        let tag = self.send(command, name)?;
        self.response(&tag, name, None)
    }

    /// Sends a command and, when the server allows it, a second line.
    pub fn ask_in_two(&mut self, command: &str, second: &str, name: &str) -> Result<Vec<String>> {
        let tag = self.send(command, name)?;
        self.response(&tag, name, Some(second))
    }

    fn send(&mut self, command: &str, name: &str) -> Result<String> {
        self.tags += 1;
        let tag = format!("p{}", self.tags);
        self.peer.awaits(name);
        self.peer.send(format!("{} {}\r\n", tag, command).as_bytes())?;
        Ok(tag)
    }

    fn response(&mut self, tag: &str, name: &str, mut second: Option<&str>) -> Result<Vec<String>> {
        let mut untagged = Vec::new();
        while untagged.len() < MAX_LINES {
            match self.line().map_err(|e| e.during(name))? {
                Line::Continue => match second.take() {
                    Some(line) => self.peer.send(format!("{}\r\n", line).as_bytes())?,
                    None => return Err(self.peer.protocol("it awaits more than the command").during(name)),
                },
                Line::Untagged(text) if has_word(&text, "BYE") && name != "LOGOUT" => return Err(refused(name, &text)),
                Line::Untagged(text) => untagged.push(text),
                Line::Tagged(t, text) if t == tag => match has_word(&text, "OK") {
                    true => return Ok(untagged),
                    false => return Err(refused(name, &text)),
                },
                Line::Tagged(t, text) => {
                    return Err(self.peer.protocol(format!("it sent {:?}", shown(format!("{} {}", t, text).as_bytes()))).during(name))
                }
            }
        }
        Err(self.peer.protocol(format!("an answer of more than {} lines", MAX_LINES)).during(name))
    }

    /// Reads a line with its literals.
    fn line(&mut self) -> Result<Line> {
        let mut line = self.peer.line()?;
        if line == "+" || line.starts_with("+ ") {
            return Ok(Line::Continue);
        }
        let (first, rest) = split(&line);
        if first != "*" {
            let known = first.len() < 10 && first.starts_with('p') && ["OK", "NO", "BAD"].iter().any(|w| has_word(rest, w));
            return match known {
                true => Ok(Line::Tagged(first.into(), rest.into())),
                false => Err(self.peer.protocol(format!("it sent {:?}", shown(line.as_bytes())))),
            };
        }
        if ["OK", "NO", "BAD", "BYE", "PREAUTH"].iter().any(|w| has_word(rest, w)) {
            return Ok(Line::Untagged(rest.into())); // the text may end like a literal
        }
        let mut total = 0;
        while let Some(size) = literal(&line) {
            total = size.saturating_add(total).saturating_add(1);
            if total > MAX_LITERAL {
                return Err(self.peer.protocol(format!("literals of more than {} bytes", MAX_LITERAL)));
            }
            let text = self.peer.exact(size)?;
            let rest = self.peer.line()?;
            line.truncate(line.rfind('{').unwrap_or(line.len()));
            line = format!("{}\"{}\"{}", line, shown(&text), rest);
        }
        Ok(Line::Untagged(line.get(2..).unwrap_or_default().into()))
    }

    /// Returns what the server offers.
    pub fn capabilities(&mut self) -> Result<Vec<String>> {
        let lines = self.ask("CAPABILITY", "CAPABILITY")?;
        let list: Vec<String> = lines.iter().filter(|l| has_word(l, "CAPABILITY")).flat_map(|l| l.split(' ').skip(1).map(str::to_owned)).collect();
        match list.is_empty() {
            true => Err(self.peer.protocol("no capabilities").during("CAPABILITY")),
            false => Ok(list),
        }
    }

    /// Returns how many messages a mailbox has, and how many of them are unseen.
    pub fn status(&mut self, mailbox: &str) -> Result<(u64, u64)> {
        let lines = self.ask(&format!("STATUS {} (MESSAGES UNSEEN)", mailbox), "STATUS")?;
        let line = lines.iter().find(|l| has_word(l, "STATUS")).map(String::as_str).unwrap_or_default();
        let items = line.rsplit_once('(').map_or("", |(_, items)| items.trim_end().trim_end_matches(')'));
        let words: Vec<&str> = items.split_whitespace().collect();
        let value = |name: &str| words.chunks_exact(2).find(|pair| pair[0].eq_ignore_ascii_case(name)).and_then(|pair| pair[1].parse().ok());
        match (value("MESSAGES"), value("UNSEEN")) {
            (Some(messages), Some(unseen)) => Ok((messages, unseen)),
            _ => Err(self.peer.protocol(format!("the status is {:?}", shown(line.as_bytes()))).during("STATUS")),
        }
    }
}

fn refused(name: &str, text: &str) -> Error {
    Error::Refused(format!("{}: the server says {}", name, shown(text.as_bytes())))
}

/// Splits a text at its first space.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn has_word(text: &str, word: &str) -> bool {
    split(text).0.eq_ignore_ascii_case(word)
}

/// Returns a text without a code such as "[CAPABILITY IMAP4rev1]" before it.
fn without_code(text: &str) -> String {
    let rest = text.strip_prefix('[').and_then(|t| t.split_once(']')).map_or(text, |(_, rest)| rest);
    shown(rest.as_bytes())
}

/// Returns the size of the literal that a line announces at its end.
fn literal(line: &str) -> Option<usize> {
    let (_, size) = line.strip_suffix('}')?.rsplit_once('{')?;
    let is_number = !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| size.parse().unwrap_or(usize::MAX))
}
