//! `strftime_now`, for a clock that is given.

use std::fmt::Write as _;

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const SECONDS_PER_DAY: u64 = 86_400;
/// Times are within four digits of the year: 9999-12-31T23:59:59Z.
const LAST_SECOND: u64 = 253_402_300_799;

/// The time in UTC, as Python's `strftime` writes it in the C locale.
pub(super) fn format(format: &str, unix_seconds: u64) -> Result<String, Error> {
    let seconds = unix_seconds.min(LAST_SECOND);
    let (days, of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let month_name = MONTHS[(month - 1) as usize];
    let day_name = DAYS[((days + 4) % 7) as usize];
    let day_of_year = days - days_before_year(year) + 1;
    let hour_of_half_day = (hour + 11) % 12 + 1;

    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut directive = characters.next();
        // `%-d` is `%d` without padding, where the C library has it.
        let padded = directive != Some('-');
        if !padded {
            directive = characters.next();
        }
        let number = |out: &mut String, value: u64, width: usize| {
            // Writing to a string cannot fail.
            let _ = write!(out, "{value:0width$}", width = if padded { width } else { 0 });
        };
        match directive {
            Some('Y') => number(&mut out, year, 4),
            Some('y') => number(&mut out, year % 100, 2),
            Some('m') => number(&mut out, month, 2),
            Some('d') => number(&mut out, day, 2),
            Some('H') => number(&mut out, hour, 2),
            Some('I') => number(&mut out, hour_of_half_day, 2),
            Some('M') => number(&mut out, minute, 2),
            Some('S') => number(&mut out, second, 2),
            Some('j') => number(&mut out, day_of_year, 3),
            Some('B') => out.push_str(month_name),
            Some('b') => out.push_str(&month_name[..3]),
            Some('A') => out.push_str(day_name),
            Some('a') => out.push_str(&day_name[..3]),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('F') => _ = write!(out, "{year:04}-{month:02}-{day:02}"),
            Some('T') => _ = write!(out, "{hour:02}:{minute:02}:{second:02}"),
            Some('%') => out.push('%'),
            other => {
                let found = other.map_or_else(|| "the end".to_owned(), |other| format!("%{other}"));
                let detail = format!("strftime_now: expected one of %YymdHIMSjBbAapFT%, found {found}");
                return Err(Error::new(ErrorKind::InvalidOperation, detail));
            }
        }
    }
    Ok(out)
}

/// Year, month (from 1) and day (from 1) of a day counted from 1970-01-01.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before_year(year);
    let leap = is_leap(year);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days from 1970-01-01 to the first of January of `year`.
fn days_before_year(year: u64) -> u64 {
    let before = |year: u64| year * 365 + year / 4 - year / 100 + year / 400;
    before(year - 1) - before(1969)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from Python: `datetime.fromtimestamp(S, timezone.utc).strftime(F)`.
    #[test]
    fn agrees_with_python() {
        let all = "%Y %y %m %d %H %I %M %S %j %B %b %A %a %p %F %T %% %-d";
        for (seconds, expected) in [
            (0, "1970 70 01 01 00 12 00 00 001 January Jan Thursday Thu AM 1970-01-01 00:00:00 % 1"),
            (951_782_399, "2000 00 02 28 23 11 59 59 059 February Feb Monday Mon PM 2000-02-28 23:59:59 % 28"),
            (951_868_800, "2000 00 03 01 00 12 00 00 061 March Mar Wednesday Wed AM 2000-03-01 00:00:00 % 1"),
            (1_796_000_461, "2026 26 11 30 01 01 01 01 334 November Nov Monday Mon AM 2026-11-30 01:01:01 % 30"),
            (4_102_444_799, "2099 99 12 31 23 11 59 59 365 December Dec Thursday Thu PM 2099-12-31 23:59:59 % 31"),
            (LAST_SECOND, "9999 99 12 31 23 11 59 59 365 December Dec Friday Fri PM 9999-12-31 23:59:59 % 31"),
        ] {
            assert_eq!(format(all, seconds).expect("known directives"), expected);
        }
        assert!(format("%Q", 0).is_err());
        assert!(format("%", 0).is_err());
    }
}
