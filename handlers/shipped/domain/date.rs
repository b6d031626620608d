//! Dates of RFC 3339, such as 2027-08-13T04:00:00Z or 2027-08-13T04:00:00.5+02:00.

use common::date::days;

/// Returns the seconds since 1970, or None for another text. A date without a time is its midnight in UTC.
pub fn parse(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.bytes().try_fold(0i64, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')));
    let has = |at: usize, chars: &[u8]| text.as_bytes().get(at).map_or(false, |b| chars.contains(b));
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    if !has(4, b"-") || !has(7, b"-") || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let midnight = days(year, month, day) * 86400;
    if text.len() == 10 {
        return Some(midnight);
    }
    let (hours, minutes, seconds) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !has(10, b"Tt ") || !has(13, b":") || !has(16, b":") || hours > 24 || minutes > 59 || seconds > 60 {
        return None;
    }
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    Some(midnight + hours * 3600 + minutes * 60 + seconds - offset(zone)?)
}

/// Returns the seconds of a zone such as Z or +02:00. Some registries write none for UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.strip_prefix(['+', '-'].as_slice())?.split_once(':')?;
    let two = |text: &str| if text.len() == 2 { text.parse::<u8>().ok().filter(|_| !text.starts_with('+')) } else { None };
    let (hours, minutes) = (two(hours).filter(|h| *h < 24)?, two(minutes).filter(|m| *m < 60)?);
    Some(sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}
