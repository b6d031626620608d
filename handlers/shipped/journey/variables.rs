//! Values that steps extract, and their use as ${name}. A reference to a secret has a colon, ${file:…}, and is
//! resolved before the plugin sees it.

use std::collections::BTreeMap;

/// The most bytes of a value.
pub const MAX_VALUE: usize = 8 << 10;

/// Values by the names of their variables.
pub type Variables = BTreeMap<String, String>;

/// Returns the names that a text refers to.
pub fn names(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for_each(text, |part| {
        if let Part::Name(name) = part {
            all.push(name);
        }
    });
    all
}

/// Replaces ${name} by the encoded values of variables, and $${ by ${. The error is a name without a value.
pub fn expand(text: &str, variables: &Variables, encode: fn(&str) -> String) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut missing = None;
    for_each(text, |part| match part {
        Part::Text(text) => out += text,
        Part::Name(name) => match variables.get(name) {
            Some(value) => out += &encode(value),
            None => missing = Some(name.to_owned()),
        },
    });
    missing.map_or(Ok(out), Err)
}

enum Part<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn for_each<'a>(text: &'a str, mut use_part: impl FnMut(Part<'a>)) {
    let mut rest = text;
    while let Some(i) = rest.find("${") {
        let (before, after) = (&rest[..i], &rest[i + 2..]);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let is_name = after[end..].starts_with('}') && after.starts_with(|c: char| !c.is_ascii_digit()) && end > 0;
        match before.strip_suffix('$') {
            Some(before) => {
                use_part(Part::Text(before));
                use_part(Part::Text("${"));
                rest = after;
            }
            None if is_name => {
                use_part(Part::Text(before));
                use_part(Part::Name(&after[..end]));
                rest = &after[end + 1..];
            }
            None => {
                use_part(Part::Text(&rest[..i + 2]));
                rest = after;
            }
        }
    }
    use_part(Part::Text(rest));
}
