//! Minimal JSON for probes: finding a value by its path, and writing strings.

/// Finds the value at a dotted path ("tls.peer.0.notAfter"). A number is an index into an
/// array. Returns None if there is no value or it is null.
pub fn lookup<'a>(doc: &'a str, path: &str) -> Option<&'a str> {
    let mut value = doc.trim();
    for step in path.split('.') {
        value = member(value, step)?;
    }
    Some(value).filter(|v| *v != "null")
}

/// Returns a value as a string: a string without quotes and escapes, anything else unchanged.
pub fn text(value: &str) -> String {
    match value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
        Some(quoted) if quoted.contains('\\') => unescape(quoted),
        Some(plain) => plain.into(),
        None => value.into(),
    }
}

/// Reports whether a quoted key equals name.
fn is_key(key: &str, name: &str) -> bool {
    match key.strip_prefix('"').and_then(|k| k.strip_suffix('"')) {
        Some(plain) if plain == name => true,
        Some(plain) => plain.contains('\\') && text(key) == name,
        None => false,
    }
}

/// Returns the items of an array; empty for any other value.
pub fn items(value: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = match value.strip_prefix('[') {
        Some(inner) => inner.trim_start(),
        None => return all,
    };
    while !rest.is_empty() && !rest.starts_with(['}', ']'].as_slice()) {
        let (item, after) = rest.split_at(end(rest));
        if item.is_empty() {
            break;
        }
        all.push(item);
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    all
}

/// Returns the names and values of an object; empty for any other value. The values are JSON.
pub fn fields(value: &str) -> Vec<(String, &str)> {
    let mut all = Vec::new();
    let mut rest = match value.trim().strip_prefix('{') {
        Some(inner) => inner.trim_start(),
        None => return all,
    };
    while !rest.is_empty() && !rest.starts_with('}') {
        let (key, after) = rest.split_at(end(rest));
        let after = match after.trim_start().strip_prefix(':') {
            Some(after) if !key.is_empty() => after.trim_start(),
            _ => break,
        };
        let (value, after) = after.split_at(end(after));
        all.push((text(key), value));
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    all
}

/// Returns a string as JSON.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            c if c < ' ' => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Returns an object whose values are given as JSON.
pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|(name, value)| quote(name) + ":" + &value).collect();
    format!("{{{}}}", fields.join(","))
}

fn member<'a>(doc: &'a str, name: &str) -> Option<&'a str> {
    let object = doc.starts_with('{');
    if !object && !doc.starts_with('[') {
        return None;
    }
    let mut rest = doc[1..].trim_start();
    for i in 0.. {
        if rest.is_empty() || rest.starts_with(['}', ']'].as_slice()) {
            return None;
        }
        let mut here = !object && name.parse() == Ok(i);
        if object {
            let (key, after) = rest.split_at(end(rest));
            here = is_key(key, name);
            rest = after.trim_start().strip_prefix(':')?.trim_start();
        }
        let (value, after) = rest.split_at(end(rest));
        if here {
            return Some(value);
        }
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        if value.is_empty() {
            return None;
        }
    }
    None
}

/// Returns the length of the value at the beginning of doc.
fn end(doc: &str) -> usize {
    let bytes = doc.as_bytes();
    let (mut depth, mut i) = (0, 0);
    while i < bytes.len() {
        match bytes[i] {
            b'"' => {
                i = end_of_text(bytes, i + 1);
                if depth == 0 {
                    return i;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return i + depth,
            b'}' | b']' => depth -= 1,
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => return i,
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}

/// Returns the index after the closing quote of the string at i.
fn end_of_text(bytes: &[u8], mut i: usize) -> usize {
    while i < bytes.len() {
        match bytes[i] {
            b'"' => return i + 1,
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn unescape(quoted: &str) -> String {
    let mut units = Vec::new();
    let mut rest = quoted.chars();
    let mut buf = [0; 2];
    while let Some(c) = rest.next() {
        let c = match c {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits: String = rest.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
                    continue;
                }
                Some(c) => c,
                None => break,
            },
            c => c,
        };
        units.extend_from_slice(c.encode_utf16(&mut buf));
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = r#" {"a": {"b": [1, {"c": "x\"}]y"}, [2, 3]]}, "n": null, "e": "\u00e9\ud83d\ude00\n", "": 7, "a\"q": true} "#;

    #[test]
    fn values_are_found_by_path() {
        for (path, want) in [
            ("a.b.0", Some("1")),
            ("a.b.1.c", Some(r#""x\"}]y""#)),
            ("a.b.2.1", Some("3")),
            ("a.b.3", None),
            ("a.x", None),
            ("n", None),
            ("n.x", None),
            ("", Some("7")),
            ("a\"q", Some("true")),
        ] {
            assert_eq!(lookup(DOC, path), want, "{}", path);
        }
    }

    #[test]
    fn fields_are_in_their_order() {
        let found = fields(r#" {"b.c": 1 , "a": {"x": [2]}, "": ""} "#);
        assert_eq!(found, [("b.c".into(), "1"), ("a".into(), r#"{"x": [2]}"#), ("".into(), "\"\"")]);
        assert!(fields("[1]").is_empty() && fields("{}").is_empty());
    }

    #[test]
    fn texts_lose_their_escapes() {
        assert_eq!(text(lookup(DOC, "e").unwrap()), "é😀\n");
        assert_eq!(text(&quote("a\u{1}\"\\b\n")), "a\u{1}\"\\b\n");
    }

    #[test]
    fn broken_documents_end() {
        for doc in ["{", "{\"a\"", "{\"a\":", "{a}", "[", "[1", "[,", "{\"a\":}", "]", "\"", "{\"a\" 1}", "[}", "{\"x\":{\"a\":1"] {
            let _ = lookup(doc, "a.b");
            let _ = lookup(doc, "1");
            let _ = items(doc);
            let _ = fields(doc);
        }
        assert_eq!(items("[1, \"two\"]"), ["1", "\"two\""]);
    }
}
