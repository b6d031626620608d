//! The config of a probe, which the host has validated with the schema of the manifest.
//! Functions find a value by a dotted path; a number is an index into an array. They return
//! the fallback if there is no value, and an error for a value of another type.

use crate::{host, json, pull, Error, Result};
use std::io;
use std::str::FromStr;
use std::time::Duration;

/// Returns the value at path: a string without its quotes, anything else as JSON.
pub fn get(path: &str) -> Result<Option<String>> {
    match pull(128, |buf, cap| unsafe { host::config_get(path.as_ptr(), path.len(), buf, cap) }) {
        Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Returns the string at path.
pub fn string(path: &str, fallback: &str) -> Result<String> {
    Ok(get(path)?.unwrap_or_else(|| fallback.into()))
}

/// Returns the number or bool at path: `config::value("max", 10)?`.
pub fn value<T: FromStr>(path: &str, fallback: T) -> Result<T> {
    match get(path)? {
        None => Ok(fallback),
        Some(text) => text.parse().map_err(|_| bad(path, &text, std::any::type_name::<T>())),
    }
}

/// Returns the duration at path, a string such as "1m30s".
pub fn duration(path: &str, fallback: Duration) -> Result<Duration> {
    match get(path)? {
        None => Ok(fallback),
        Some(text) => parse_duration(&text).ok_or_else(|| bad(path, &text, "duration")),
    }
}

/// Returns the list of strings at path, or an empty one.
pub fn strings(path: &str) -> Result<Vec<String>> {
    match get(path)? {
        None => Ok(Vec::new()),
        Some(list) if list.starts_with('[') => Ok(json::items(&list).into_iter().map(json::text).collect()),
        Some(text) => Err(bad(path, &text, "list")),
    }
}

fn bad(path: &str, text: &str, want: &str) -> Error {
    Error::new(format!("config: {}: {:.60} is no {}", path, text, want))
}

/// Parses a duration such as "1m30s". Returns None if text is not one.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic())?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        sum += number * seconds;
        rest = after;
    }
    let fits = !text.is_empty() && (0.0..=1e9).contains(&sum);
    fits.then(|| Duration::from_secs_f64(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(parse_duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("1.5ms"), Some(Duration::from_micros(1500)));
        for text in ["", "5", "s", "1x", "-1s", "1s5", "1..5s"] {
            assert_eq!(parse_duration(text), None, "{}", text);
        }
    }
}
