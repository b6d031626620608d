//! Times in UTC, as protocols write them.

use crate::host;
use std::fmt;
use std::io;
use std::time::Duration;

/// Returns the time since 1970. It also works where std::time has no clock: on wasm32-unknown-unknown.
pub fn now() -> io::Result<Duration> {
    clock(0)
}

/// Returns the time of a monotonic clock. Use it to measure durations.
pub fn ticks() -> io::Result<Duration> {
    clock(1)
}

fn clock(id: i32) -> io::Result<Duration> {
    let mut ns = 0u64;
    match unsafe { host::clock_time_get(id, 1, &mut ns) } {
        0 => Ok(Duration::from_nanos(ns)),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "no clock")),
    }
}

/// A time in UTC. It is displayed as RFC 3339 has it: "2006-01-02T15:04:05Z".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utc {
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
}

impl Utc {
    /// Returns a time from seconds since 1970.
    pub fn from_unix(seconds: i64) -> Utc {
        let of_day = seconds.rem_euclid(86400);
        let (year, month, day) = civil(seconds.div_euclid(86400));
        Utc { year, month, day, hour: (of_day / 3600) as u8, minute: (of_day / 60 % 60) as u8, second: (of_day % 60) as u8 }
    }

    /// Returns the seconds since 1970.
    pub fn unix(&self) -> i64 {
        let of_day = i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        days(self.year, self.month.into(), self.day.into()) * 86400 + of_day
    }

    /// Returns the basic format of ISO 8601, "20060102T150405Z", as in signatures of requests. Its first eight
    /// characters are the date.
    pub fn basic(&self) -> String {
        format!("{:04}{:02}{:02}T{:02}{:02}{:02}Z", self.year, self.month, self.day, self.hour, self.minute, self.second)
    }

    /// Parses RFC 3339, such as "2006-01-02T15:04:05.5+02:00". It drops fractions of a second. Returns None for
    /// other text.
    pub fn parse(text: &str) -> Option<Utc> {
        let number = |from: usize, to: usize| text.get(from..to)?.bytes().try_fold(0i64, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')));
        let between = |from: usize, to: usize, low: i64, high: i64| number(from, to).filter(|n| (low..=high).contains(n));
        let date = days(number(0, 4)?, between(5, 7, 1, 12)?, between(8, 10, 1, 31)?);
        if civil(date).2 as i64 != number(8, 10)? {
            return None; // the month is shorter
        }
        let of_day = between(11, 13, 0, 23)? * 3600 + between(14, 16, 0, 59)? * 60 + between(17, 19, 0, 60)?;
        let marks = [(4, "-"), (7, "-"), (10, "Tt"), (13, ":"), (16, ":")];
        if marks.iter().any(|(at, mark)| !mark.as_bytes().contains(&text.as_bytes()[*at])) {
            return None;
        }
        let mut zone = &text[19..];
        if let Some(fraction) = zone.strip_prefix('.') {
            zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return None;
            }
        }
        Some(Utc::from_unix(date * 86400 + of_day - offset(zone)?))
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", self.year, self.month, self.day, self.hour, self.minute, self.second)
    }
}

/// Returns the seconds of a zone, "Z" or "+02:00".
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" || zone == "z" {
        return Some(0);
    }
    let b = zone.as_bytes();
    if b.len() != 6 || b[3] != b':' || [1, 2, 4, 5].iter().any(|i| !b[*i].is_ascii_digit()) {
        return None;
    }
    let number = |i: usize| i64::from(b[i] - b'0') * 10 + i64::from(b[i + 1] - b'0');
    let (hours, minutes) = (number(1), number(4));
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    match b[0] {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// Returns the days from 1970 to a date of the Gregorian calendar.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468
}

/// Returns the date that is some days after 1970.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + 719468;
    let of_era = days.rem_euclid(146097);
    let year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // from March
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (days.div_euclid(146097) * 400 + year + i64::from(month <= 2), month as u8, day as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written() {
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951782400, "2000-02-29T00:00:00Z"),
            (1136214245, "2006-01-02T15:04:05Z"),
            (4107542399, "2100-02-28T23:59:59Z"),
            (4107542400, "2100-03-01T00:00:00Z"),
            (-2208988800, "1900-01-01T00:00:00Z"),
        ] {
            assert_eq!(Utc::from_unix(seconds).to_string(), want);
            assert_eq!(Utc::parse(want).map(|t| t.unix()), Some(seconds), "{}", want);
        }
        assert_eq!(Utc::from_unix(1136214245).basic(), "20060102T150405Z");
    }

    #[test]
    fn every_day_is_its_own() {
        for day in -200_000..200_000 {
            let (year, month, date) = civil(day);
            assert_eq!(days(year, month.into(), date.into()), day);
        }
    }

    #[test]
    fn zones_and_fractions_are_read() {
        for (text, want) in [
            ("2006-01-02T15:04:05.123456789Z", Some(1136214245)),
            ("2006-01-02t17:04:05.5+02:00", Some(1136214245)),
            ("2006-01-02T08:04:05-07:00", Some(1136214245)),
            ("2006-01-02 15:04:05Z", None),
            ("2006-01-02T15:04:05", None),
            ("2006-01-02T15:04:05.Z", None),
            ("2006-13-02T15:04:05Z", None),
            ("2006-02-29T15:04:05Z", None),
            ("2006-01-02T24:04:05Z", None),
            ("2006-01-02T15:04:05+0200", None),
            ("2006-01-02T15:04:05+é0:0", None),
            ("2006-01-02T15:04:05+23:59", Some(1136127905)),
            ("2006-01-02T15:04:05-24:00", None),
            ("2006-01-02T15:04:05+00:60", None),
            ("2006-01-02", None),
            ("é006-01-02T15:04:05Z", None),
            ("", None),
        ] {
            assert_eq!(Utc::parse(text).map(|t| t.unix()), want, "{}", text);
        }
    }
}
