// Times in UTC, as protocols write them. They are seconds since 1970.

/** Returns a time as RFC 3339 has it: "2006-01-02T15:04:05Z". */
export function rfc3339(seconds: i64): string {
  const t = basicTime(seconds);
  return t.substr(0, 4) + "-" + t.substr(4, 2) + "-" + t.substr(6, 5) + ":" + t.substr(11, 2) + ":" + t.substr(13);
}

/** Returns the basic format of ISO 8601, "20060102T150405Z", as in signatures of requests. Its first eight characters
 * are the date. */
export function basicTime(seconds: i64): string {
  const days = floorDiv(seconds, 86400);
  const ofDay = seconds - days * 86400;
  // The calendar begins in March of the year 0, and has eras of 400 years.
  const z = days + 719468;
  const era = floorDiv(z, 146097);
  const ofEra = z - era * 146097;
  const y = (ofEra - ofEra / 1460 + ofEra / 36524 - ofEra / 146096) / 365;
  const ofYear = ofEra - (365 * y + y / 4 - y / 100);
  const march = (5 * ofYear + 2) / 153;
  const month = march < 10 ? march + 3 : march - 9;
  const year = era * 400 + y + (month <= 2 ? 1 : 0);
  const day = ofYear - (153 * march + 2) / 5 + 1;
  return digits(year, 4) + digits(month, 2) + digits(day, 2) + "T" + digits(ofDay / 3600, 2) + digits(ofDay / 60 % 60, 2) +
    digits(ofDay % 60, 2) + "Z";
}

/** Parses RFC 3339, such as "2006-01-02T15:04:05.5+02:00", without its fraction of a second. Returns i64.MIN_VALUE for
 * other text. */
export function parseTime(text: string): i64 {
  const year = number(text, 0, 4);
  const month = number(text, 5, 7);
  const day = number(text, 8, 10);
  const hour = number(text, 11, 13);
  const minute = number(text, 14, 16);
  const second = number(text, 17, 19);
  if (year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) {
    return i64.MIN_VALUE;
  }
  const t = text.charCodeAt(10) | 0x20;
  if (text.charAt(4) != "-" || text.charAt(7) != "-" || t != 0x74 || text.charAt(13) != ":" || text.charAt(16) != ":") return i64.MIN_VALUE;
  let zone = 19;
  if (text.charAt(zone) == ".") {
    zone++;
    while (zone < text.length && digit(text, zone) >= 0) zone++;
    if (zone == 20) return i64.MIN_VALUE;
  }
  const offset = offsetAt(text, zone);
  const date = daysTo(year, month, day);
  if (offset == i64.MIN_VALUE || date >= daysTo(month < 12 ? year : year + 1, month < 12 ? month + 1 : 1, 1)) return i64.MIN_VALUE;
  return date * 86400 + hour * 3600 + minute * 60 + second - offset;
}

/** Returns the seconds of the zone at the end of a text, "Z" or "+02:00"; i64.MIN_VALUE for another. */
function offsetAt(text: string, at: i32): i64 {
  if (text.length == at + 1 && (text.charCodeAt(at) | 0x20) == 0x7a) return 0;
  const hours = number(text, at + 1, at + 3);
  const minutes = number(text, at + 4, at + 6);
  const sign = text.charAt(at);
  if (text.length != at + 6 || text.charAt(at + 3) != ":" || (sign != "+" && sign != "-")) return i64.MIN_VALUE;
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return i64.MIN_VALUE;
  const seconds = hours * 3600 + minutes * 60;
  return sign == "-" ? -seconds : seconds;
}

/** Returns the days from 1970 to a date of the Gregorian calendar. */
function daysTo(year: i64, month: i64, day: i64): i64 {
  const y = month <= 2 ? year - 1 : year;
  const era = floorDiv(y, 400);
  const ofEra = y - era * 400;
  const ofYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719468;
}

function floorDiv(a: i64, b: i64): i64 {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

function digits(n: i64, width: i32): string {
  return n.toString().padStart(width, "0");
}

/** Returns the number between two indices; negative if there are other characters. */
function number(text: string, from: i32, to: i32): i64 {
  let n: i64 = 0;
  for (let i = from; i < to; i++) {
    const d = digit(text, i);
    if (d < 0) return -1;
    n = n * 10 + d;
  }
  return n;
}

/** Returns the digit at an index; negative for another character, and beyond the end. */
function digit(text: string, at: i32): i32 {
  if (at >= text.length) return -1;
  const d = text.charCodeAt(at) - 0x30;
  return d >= 0 && d <= 9 ? d : -1;
}
