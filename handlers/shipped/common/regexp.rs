//! Regular expressions in the syntax and with the meaning of Go's package regexp, by the crate regex.
//! The differences between the two are translated: Perl's classes are ASCII, any punctuation may be
//! escaped, braces may be literal, and classes do not nest.

use prober::{Error, Result};
use regex::bytes::RegexBuilder;
use std::borrow::Cow;

/// The most bytes that a compiled expression may take.
const SIZE_LIMIT: usize = 1 << 20;

/// The most repetitions that Go allows.
const MAX_REPEAT: u32 = 1000;

/// The classes with a name.
const NAMED: [&str; 14] =
    ["alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit"];

pub struct Regexp {
    pub text: String,
    compiled: regex::bytes::Regex,
}

impl Regexp {
    /// Compiles text, the value of a field, for which an error is.
    pub fn at(field: &str, text: &str) -> Result<Regexp> {
        let bad = |why: String| Error::new(format!("{}: {:?} is not a regular expression: {}", field, text, why));
        let translated = translate(text).map_err(|why| bad(why.into()))?;
        match RegexBuilder::new(&translated).size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT).build() {
            Ok(compiled) => Ok(Regexp { text: text.into(), compiled }),
            Err(e) => Err(bad(e.to_string().lines().last().unwrap_or_default().into())),
        }
    }

    /// Reports whether there is a match in text, which [`lossy`] must have made UTF-8.
    pub fn matches(&self, text: &str) -> bool {
        self.compiled.is_match(text.as_bytes())
    }

    /// Returns the first group of the first match, or all of it if the expression has no group.
    pub fn group(&self, text: &str) -> Option<String> {
        let groups = self.compiled.captures(text.as_bytes())?;
        let found = if groups.len() > 1 { groups.get(1)? } else { groups.get(0)? };
        Some(String::from_utf8_lossy(found.as_bytes()).into_owned())
    }

    /// Replaces ${1}, $name and so on in template by the groups of the first match, as Go's Expand
    /// does; None without a match.
    pub fn expand(&self, text: &str, template: &str) -> Option<String> {
        let groups = self.compiled.captures(text.as_bytes())?;
        let mut out = Vec::new();
        groups.expand(template.as_bytes(), &mut out);
        Some(String::from_utf8_lossy(&out).into_owned())
    }
}

/// Returns data as UTF-8. Each byte that is not part of a character becomes U+FFFD, which is what Go's
/// regexp reads there.
pub fn lossy(data: &[u8]) -> Cow<str> {
    let mut rest = data;
    let mut out = String::new();
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) if rest.len() == data.len() => return Cow::Borrowed(text),
            Ok(text) => return Cow::Owned(out + text),
            Err(e) => {
                let (good, bad) = rest.split_at(e.valid_up_to());
                out += std::str::from_utf8(good).unwrap_or_default();
                let n = e.error_len().unwrap_or(bad.len());
                out.extend(std::iter::repeat('\u{fffd}').take(n));
                rest = &bad[n..];
            }
        }
    }
}

/// Returns an expression of Go in the syntax of the crate regex.
fn translate(text: &str) -> std::result::Result<String, &'static str> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut repeated = false; // what comes before rest is a repetition
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if let Some(n) = repetition(rest)? {
            if repeated {
                return Err("invalid nested repetition operator");
            }
            let lazy = rest[n..].starts_with('?');
            let (operator, after) = rest.split_at(n + usize::from(lazy));
            out += operator;
            rest = after;
            repeated = true;
            continue;
        }
        repeated = false;
        rest = match c {
            '\\' => escape(after, &mut out, false)?,
            '[' => class(after, &mut out)?,
            '(' => group(after, &mut out)?,
            '{' => {
                out += "\\{";
                after
            }
            _ => {
                out.push(c);
                after
            }
        };
    }
    Ok(out)
}

/// Translates what follows a backslash, and returns the rest.
fn escape<'a>(text: &'a str, out: &mut String, in_class: bool) -> std::result::Result<&'a str, &'static str> {
    let c = text.chars().next().ok_or("trailing backslash at the end")?;
    let after = &text[c.len_utf8()..];
    let perl = match c {
        'd' => Some(("[0-9]", "0-9")),
        'w' => Some(("[0-9A-Za-z_]", "0-9A-Za-z_")),
        's' => Some(("[\\t\\n\\f\\r ]", "\\t\\n\\f\\r ")),
        'D' => Some(("[^0-9]", "[^0-9]")),
        'W' => Some(("[^0-9A-Za-z_]", "[^0-9A-Za-z_]")),
        'S' => Some(("[^\\t\\n\\f\\r ]", "[^\\t\\n\\f\\r ]")),
        _ => None,
    };
    match c {
        _ if perl.is_some() => {
            let (alone, within) = perl.unwrap_or_default();
            *out += if in_class { within } else { alone };
        }
        'b' | 'B' if !in_class => {
            *out += "(?-u:\\";
            out.push(c);
            out.push(')');
        }
        'Q' if !in_class => {
            let (literal, after) = match after.find("\\E") {
                Some(at) => (&after[..at], &after[at + 2..]),
                None => (after, ""),
            };
            *out += &regex::escape(literal);
            return Ok(after);
        }
        '1'..='7' if after.starts_with(|c| ('0'..='7').contains(&c)) => return Ok(octal(text, out)),
        '0' => return Ok(octal(text, out)),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => push_literal(c, out),
        'p' | 'P' | 'x' => {
            out.push('\\');
            out.push(c);
            let braced = after.find('}').filter(|_| after.starts_with('{')).map_or(0, |end| end + 1);
            *out += &after[..braced];
            return Ok(&after[braced..]);
        }
        'A' | 'z' | 'a' | 'f' | 't' | 'n' | 'r' | 'v' => {
            out.push('\\');
            out.push(c);
        }
        _ => return Err("invalid escape sequence"),
    }
    Ok(after)
}

/// Translates up to three octal digits.
fn octal<'a>(text: &'a str, out: &mut String) -> &'a str {
    let n = text.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
    *out += &format!("\\x{{{:x}}}", u32::from_str_radix(&text[..n], 8).unwrap_or_default());
    &text[n..]
}

fn push_literal(c: char, out: &mut String) {
    *out += &regex::escape(c.encode_utf8(&mut [0; 4]));
}

/// Translates a class from behind its bracket, and returns the rest.
fn class<'a>(text: &'a str, out: &mut String) -> std::result::Result<&'a str, &'static str> {
    out.push('[');
    let mut rest = text;
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut first = true;
    loop {
        let c = rest.chars().next().ok_or("missing closing ]")?;
        let after = &rest[c.len_utf8()..];
        rest = match c {
            ']' if !first => {
                out.push(']');
                return Ok(after);
            }
            '\\' => escape(after, out, true)?,
            '[' if after.starts_with(':') && after[1..].contains(":]") => {
                let end = after.find(":]").unwrap_or_default() + 2;
                if !NAMED.contains(&after[1..end - 2].trim_start_matches('^')) {
                    return Err("invalid character class range");
                }
                out.push('[');
                *out += &after[..end];
                &after[end..]
            }
            // A minus is a range only between two characters.
            '-' if first || after.starts_with(']') => {
                *out += "\\-";
                after
            }
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                after
            }
            _ => {
                out.push(c);
                after
            }
        };
        first = false;
    }
}

/// Translates what follows an opening parenthesis, and returns the rest.
fn group<'a>(text: &'a str, out: &mut String) -> std::result::Result<&'a str, &'static str> {
    out.push('(');
    let after = match text.strip_prefix('?') {
        None => return Ok(text),
        Some(after) => after,
    };
    if let Some(name) = after.strip_prefix('<') {
        *out += "?P<";
        return Ok(name);
    }
    if after.starts_with("P<") {
        *out += "?";
        return Ok(after);
    }
    let end = after.find([':', ')'].as_slice()).ok_or("missing closing )")?;
    if after[..end].contains(|c| !"imsU-".contains(c)) {
        return Err("invalid or unsupported Perl syntax");
    }
    *out += "?";
    *out += &after[..=end];
    Ok(&after[end + 1..])
}

/// Returns the length of the repetition that text begins with: *, +, ?, {3}, {3,} or {3,5}; None for
/// anything else, a brace that is literal included.
fn repetition(text: &str) -> std::result::Result<Option<usize>, &'static str> {
    if text.starts_with(['*', '+', '?'].as_slice()) {
        return Ok(Some(1));
    }
    let inner = match (text.strip_prefix('{'), text.find('}')) {
        (Some(_), Some(end)) => &text[1..end],
        _ => return Ok(None),
    };
    let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
    if least.is_empty() || !(least.to_owned() + most).bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    let too_many = |n: &str| !n.is_empty() && n.parse().map_or(true, |n: u32| n > MAX_REPEAT);
    if too_many(least) || too_many(most) {
        return Err("invalid repeat count");
    }
    Ok(Some(inner.len() + 2))
}
