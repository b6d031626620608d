//! Filters of RFC 4515: and, or, not, equality and presence.

use crate::ber::{element, text};

const MAX_DEPTH: usize = 16;

/// Returns a filter in BER, or why it is not valid.
pub fn parse(filter: &str) -> Result<Vec<u8>, String> {
    let mut rest = filter.trim();
    let parsed = one(&mut rest, 0)?;
    match rest.is_empty() {
        true => Ok(parsed),
        false => Err(format!("{:?} follows the filter", rest)),
    }
}

fn one(rest: &mut &str, depth: usize) -> Result<Vec<u8>, String> {
    if depth > MAX_DEPTH {
        return Err("too many parentheses".into());
    }
    *rest = rest.strip_prefix('(').ok_or("a parenthesis is missing")?;
    let tag = match rest.as_bytes().first() {
        Some(b'&') => 0xa0,
        Some(b'|') => 0xa1,
        Some(b'!') => 0xa2,
        _ => return comparison(rest),
    };
    *rest = &rest[1..];
    let mut content = Vec::new();
    let mut count = 0;
    while !rest.starts_with(')') {
        content.extend_from_slice(&one(rest, depth + 1)?);
        count += 1;
    }
    *rest = &rest[1..];
    match (tag, count) {
        (0xa2, n) if n != 1 => Err("! needs one filter".into()),
        _ => Ok(element(tag, &content)),
    }
}

fn comparison(rest: &mut &str) -> Result<Vec<u8>, String> {
    let (inner, after) = rest.split_once(')').ok_or("a parenthesis is missing")?;
    *rest = after;
    let (name, value) = inner.split_once('=').ok_or_else(|| format!("{:?} has no =", inner))?;
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ';' | '.');
    if name.is_empty() || !name.chars().all(valid) {
        return Err(format!("{:?} is not the name of an attribute", name));
    }
    if value == "*" {
        return Ok(element(0x87, name.as_bytes()));
    }
    let value = unescape(value).ok_or_else(|| format!("{:?}: write *, ( and \\ as \\2a, \\28 and \\5c", value))?;
    Ok(element(0xa3, &[text(name), element(0x04, &value)].concat()))
}

/// Replaces \2a and so on. It returns None for a character that must be escaped.
fn unescape(value: &str) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    let mut bytes = value.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'*' | b'(' => return None,
            b'\\' => {
                let digit = |b: u8| char::from(b).to_digit(16);
                data.push((digit(bytes.next()?)? << 4 | digit(bytes.next()?)?) as u8);
            }
            b => data.push(b),
        }
    }
    Some(data)
}
