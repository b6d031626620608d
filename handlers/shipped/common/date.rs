//! Dates.

/// Returns the seconds since 1970 of a date of HTTP in its usual form, "Mon, 02 Jan 2006 15:04:05 GMT".
pub fn http_date(text: &str) -> Option<i64> {
    let fields: Vec<&str> = text.split(' ').collect();
    let [_, day, month, year, time, zone] = <[&str; 6]>::try_from(fields).ok()?;
    if zone != "GMT" {
        return None;
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|m| *m == month)? as i64 + 1;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let clock: Vec<i64> = time.split(':').map_while(|n| n.parse().ok()).collect();
    let [hours, minutes, seconds] = <[i64; 3]>::try_from(clock).ok()?;
    Some(days(year, month, day) * 86400 + hours * 3600 + minutes * 60 + seconds)
}

/// Returns the days from 1970 to a date of the Gregorian calendar.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468
}
