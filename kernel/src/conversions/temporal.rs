//! Dates and times: MySQL's own text, counts of days and microseconds, ISO text.

use super::text::{Short, Text};

const DAY_MICROS: i128 = 86_400_000_000;
/// The largest TIME, 838:59:59.999999, and the smallest.
const LONGEST_TIME: i128 = 3_020_399_999_999;
const LEAST_TIME: i128 = -3_020_399_000_000;
/// How far below it Debezium before 2.6 writes it.
const TOO_LOW: i128 = 2_000_000;
const DATE: usize = 10;
const WHOLE: usize = 19;
const MIDNIGHT_1970: &[u8] = b"1970-01-01T00:00:00";
const ZERO_TIMESTAMP: &[u8] = b"1970-01-01T00:00:00Z";
const FIRST_TIMESTAMP: &[u8] = b"1970-01-01 00:00:01";
/// Earlier years are moved by TiCDC.
const FIRST_YEAR: u32 = 100;
/// Microseconds of the last place of a fraction with so many digits.
const PLACES: [u32; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

// ---------------------------------------------------------------- forms

/// What a text has to look like: by byte, the least one and how far it may be above that.
struct Form<const N: usize> {
    least: [u8; N],
    above: [u8; N],
}

impl<const N: usize> Form<N> {
    /// `0` stands for any digit, `5` for one up to it, all else for itself.
    const fn new(like: &[u8; N]) -> Self {
        let (mut least, mut above, mut at) = (*like, [0; N], 0);
        while at < N {
            if like[at].is_ascii_digit() {
                least[at] = b'0';
                above[at] = if like[at] == b'5' { 5 } else { 9 };
            }
            at += 1;
        }
        Self { least, above }
    }

    #[inline]
    fn fits(&self, text: &[u8]) -> bool {
        let Ok(text) = <&[u8; N]>::try_from(text) else { return false };
        let bounds = self.least.iter().zip(&self.above);
        text.iter().zip(bounds).all(|(byte, (least, above))| byte.wrapping_sub(*least) <= *above)
    }
}

static DATE_FORM: Form<DATE> = Form::new(b"0000-00-00");
static WHOLE_FORM: Form<WHOLE> = Form::new(b"0000-00-00 00:00:00");
static ISO_FORM: Form<WHOLE> = Form::new(b"0000-00-00T00:00:00");
static CLOCK_FORM: Form<6> = Form::new(b":50:50");

/// How many digits a fraction has, which may not be there.
fn fraction_digits(text: &[u8]) -> Option<usize> {
    match text {
        [] => Some(0),
        [b'.', digits @ ..] => {
            let is_one = (1..=6).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
            is_one.then_some(digits.len())
        }
        _ => None,
    }
}

pub fn is_date(text: &[u8]) -> bool {
    DATE_FORM.fits(text)
}

pub fn is_datetime(text: &[u8]) -> bool {
    let Some((whole, fraction)) = text.split_at_checked(WHOLE) else { return false };
    WHOLE_FORM.fits(whole) && fraction_digits(fraction).is_some()
}

pub fn is_time(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let hours = if digits.get(2) == Some(&b':') { 2 } else { 3 };
    let Some((hours, clock)) = digits.split_at_checked(hours) else { return false };
    let Some((clock, fraction)) = clock.split_at_checked(6) else { return false };
    hours.iter().all(u8::is_ascii_digit) && CLOCK_FORM.fits(clock) && fraction_digits(fraction).is_some()
}

/// A DATETIME of text with a `T` in it.
pub fn of_iso(text: Text<'_>) -> Option<Text<'_>> {
    if text.get(DATE) != Some(&b'T') {
        return is_datetime(&text).then_some(text);
    }
    let mut plain = Short::new();
    plain.push(&text[..DATE])?;
    plain.push(b" ")?;
    plain.push(&text[DATE + 1..])?;
    is_datetime(&plain).then_some(Text::from(plain))
}

/// A DATETIME with at least so many digits behind the point.
pub fn with_digits(text: Text<'_>, digits: usize) -> Option<Text<'_>> {
    let given = fraction_digits(text.get(WHOLE..)?)?;
    if given >= digits {
        return Some(text);
    }
    let mut longer = Short::new();
    longer.push(&text)?;
    if given == 0 {
        longer.push(b".")?;
    }
    longer.fill(b'0', digits - given)?;
    Some(Text::from(longer))
}

// ---------------------------------------------------------------- the calendar

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit & 15))
}

fn is_leap(year: u32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days since 1970 of a date of the right form, of the years 1 to 9999. None if it is not in the calendar.
pub fn days(date: &[u8]) -> Option<i128> {
    let (year, month, day) = (number(date.get(..4)?), number(date.get(5..7)?), number(date.get(8..DATE)?));
    days_of(year, month, day).map(i128::from)
}

fn days_of(year: u32, month: u32, day: u32) -> Option<i64> {
    let most = match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=most).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is their last.
    let years = year - u32::from(month < 3);
    let month = if month < 3 { month + 9 } else { month - 3 };
    let whole = years * 365 + years / 4 - years / 100 + years / 400;
    Some(i64::from(whole + (153 * month + 2) / 5 + day) - 719_469)
}

/// Whether it is the number of a day of the years 1 to 9999.
pub fn is_day(days: i128) -> bool {
    (-719_162..=2_932_896).contains(&days)
}

/// Whether so many microseconds after 1970 is in the years 1 to 9999.
pub fn is_moment(micros: i128) -> bool {
    is_day(micros.div_euclid(DAY_MICROS))
}

/// Whether it is as many microseconds as a TIME may be, and not a little below the smallest one.
pub fn is_count_of_time(micros: i128) -> bool {
    (LEAST_TIME..=LONGEST_TIME).contains(&micros)
}

fn year_of(date: &[u8]) -> u32 {
    number(&date[..4])
}

/// Append the date so many days after 1970-01-01. None beyond the years 1 to 9999.
fn push_date(days: i128, text: &mut Short) -> Option<()> {
    if !is_day(days) {
        return None;
    }
    let days = (days + 719_468) as u32;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    text.digits(u64::from(era * 400 + year + next), 4)?;
    text.push(b"-")?;
    text.digits(u64::from(month), 2)?;
    text.push(b"-")?;
    text.digits(u64::from(day), 2)
}

pub fn date_text<'a>(days: i128) -> Option<Text<'a>> {
    let mut text = Short::new();
    push_date(days, &mut text)?;
    Some(Text::from(text))
}

/// Microseconds of a fraction such as `.123`, which may be empty.
fn fraction_micros(fraction: &[u8]) -> u32 {
    match fraction {
        [] => 0,
        [_, digits @ ..] => number(digits) * PLACES[digits.len().min(6)],
    }
}

/// Seconds of the day of `hh:mm:ss`.
fn clock(text: &[u8]) -> Option<u32> {
    let (hours, minutes, seconds) =
        (number(text.get(..2)?), number(text.get(3..5)?), number(text.get(6..8)?));
    (hours < 24 && minutes < 60 && seconds < 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

/// Microseconds since 1970 of a DATETIME of the years 1 to 9999. None if it is not in the calendar.
pub fn datetime_micros(text: &[u8]) -> Option<i128> {
    if !is_datetime(text) {
        return None;
    }
    let seconds = days(text)? * 86_400 + i128::from(clock(&text[DATE + 1..])?);
    Some(seconds * 1_000_000 + i128::from(fraction_micros(&text[WHOLE..])))
}

/// The same for the years from 100 on, which TiCDC does not move.
pub fn unmoved_micros(text: &[u8]) -> Option<i128> {
    let micros = datetime_micros(text)?;
    (year_of(text) >= FIRST_YEAR).then_some(micros)
}

/// Days since 1970 of a DATE; `first_year`: the first one of which the days are its own.
pub fn date_days(text: &[u8], moves: bool) -> Option<i128> {
    let is_own = is_date(text) && !(moves && year_of(text) < FIRST_YEAR);
    if is_own { days(text) } else { None }
}

/// Whether it is a DATE or DATETIME without a month or a day.
pub fn is_no_date(text: &[u8]) -> bool {
    let has_clock = || is_datetime(text) && clock(&text[DATE + 1..]).is_some();
    (is_date(text) || has_clock()) && (text[5..7] == *b"00" || text[8..DATE] == *b"00")
}

/// Whether it is a DATE or DATETIME with a date of the calendar.
pub fn is_in_calendar(text: &[u8]) -> bool {
    (is_date(text) || is_datetime(text)) && days(text).is_some()
}

// ---------------------------------------------------------------- microseconds

/// Append a fraction with so many digits (None: 0, 3 or 6), or as many as it needs.
fn push_fraction(micros: u32, digits: Option<usize>, text: &mut Short) -> Option<()> {
    if micros == 0 && digits.unwrap_or(0) == 0 {
        return Some(());
    }
    let digits = match digits {
        Some(digits) if micros % PLACES.get(digits)? == 0 => digits,
        _ if micros % 1000 == 0 => 3,
        _ => 6,
    };
    text.push(b".")?;
    text.digits(u64::from(micros / PLACES[digits]), digits)
}

fn push_clock(seconds: u64, text: &mut Short) -> Option<()> {
    text.digits(seconds / 60 % 60, 2)?;
    text.push(b":")?;
    text.digits(seconds % 60, 2)
}

/// The DATETIME so many microseconds after 1970.
pub fn datetime_text<'a>(micros: i128, digits: Option<usize>) -> Option<Text<'a>> {
    let (days, rest) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS) as u64);
    let (seconds, part) = (rest / 1_000_000, (rest % 1_000_000) as u32);
    let mut text = Short::new();
    push_date(days, &mut text)?;
    text.push(b" ")?;
    text.digits(seconds / 3600, 2)?;
    text.push(b":")?;
    push_clock(seconds, &mut text)?;
    push_fraction(part, digits, &mut text)?;
    Some(Text::from(text))
}

/// The wall clock `yyyyMMddHHmmss` so many seconds after 1970, in a zone. The moment is of the years 1 to 9999
/// in UTC, too.
pub fn event_time<'a>(seconds: i128, offset_seconds: i128) -> Option<Text<'a>> {
    let (mut utc, mut local, mut text) = (Short::new(), Short::new(), Short::new());
    push_date(seconds.div_euclid(86_400), &mut utc)?;
    let seconds = seconds + offset_seconds;
    push_date(seconds.div_euclid(86_400), &mut local)?;
    for part in local.split(|&byte| byte == b'-') {
        text.push(part)?;
    }
    let clock = seconds.rem_euclid(86_400) as u64;
    text.digits(clock / 3600 * 10_000 + clock / 60 % 60 * 100 + clock % 60, 6)?;
    Some(Text::from(text))
}

/// Microseconds since 1970 of `yyyy-MM-dd HH:mm:ss`, with a space or a `T` and up to six digits of a second,
/// on a clock that is so many seconds ahead of UTC.
pub fn local_datetime_micros(text: &[u8], ahead: i64) -> Option<i64> {
    let mut whole = *text.first_chunk::<WHOLE>()?;
    if whole[DATE] == b'T' {
        whole[DATE] = b' ';
    }
    if !WHOLE_FORM.fits(&whole) || fraction_digits(&text[WHOLE..]).is_none() {
        return None;
    }
    let seconds = i64::try_from(days(&whole)?).ok()? * 86_400 + i64::from(clock(&whole[DATE + 1..])?);
    Some((seconds - ahead) * 1_000_000 + i64::from(fraction_micros(&text[WHOLE..])))
}

/// Seconds since 1970 of the wall clock `yyyyMMddHHmmss`, of the years 1000 to 9999, that is so many seconds
/// ahead of UTC.
pub fn clock_seconds(clock: i64, ahead: i64) -> Option<i64> {
    if !(10_000_000_000_000..100_000_000_000_000).contains(&clock) {
        return None;
    }
    let (date, time) = ((clock / 1_000_000) as u32, (clock % 1_000_000) as u32);
    let days = days_of(date / 10_000, date / 100 % 100, date % 100)?;
    let (hours, minutes, seconds) = (time / 10_000, time / 100 % 100, time % 100);
    let is_time = hours < 24 && minutes < 60 && seconds < 60;
    is_time.then(|| days * 86_400 + i64::from(hours * 3600 + minutes * 60 + seconds) - ahead)
}

/// The TIME of so many microseconds.
pub fn time_text<'a>(micros: i128, digits: Option<usize>) -> Option<Text<'a>> {
    if micros.abs() > LONGEST_TIME {
        return None;
    }
    let size = micros.unsigned_abs() as u64;
    let (seconds, part) = (size / 1_000_000, (size % 1_000_000) as u32);
    let hours = seconds / 3600;
    let mut text = Short::new();
    if micros < 0 {
        text.push(b"-")?;
    }
    text.digits(hours, if hours < 100 { 2 } else { 3 })?;
    text.push(b":")?;
    push_clock(seconds, &mut text)?;
    push_fraction(part, digits, &mut text)?;
    Some(Text::from(text))
}

/// The same of a count that may be a little below the smallest TIME.
pub fn clock_text<'a>(micros: i128, digits: Option<usize>) -> Option<Text<'a>> {
    let is_least = LEAST_TIME - TOO_LOW < micros && micros < LEAST_TIME;
    time_text(if is_least { LEAST_TIME } else { micros }, digits)
}

/// Microseconds of a TIME.
pub fn time_micros(text: &[u8]) -> Option<i128> {
    if !is_time(text) {
        return None;
    }
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (hours, clock) = digits.split_at(if digits[2] == b':' { 2 } else { 3 });
    let seconds = number(hours) * 3600 + number(&clock[1..3]) * 60 + number(&clock[4..6]);
    let micros = i128::from(seconds) * 1_000_000 + i128::from(fraction_micros(&clock[6..]));
    (micros <= LONGEST_TIME).then_some(if digits.len() < text.len() { -micros } else { micros })
}

// ---------------------------------------------------------------- ISO text

/// The TIMESTAMP of ISO text in UTC of the years from 100 on, with so many digits (None: those that it has).
pub fn of_iso_timestamp(iso: &[u8], digits: Option<usize>) -> Option<Text<'_>> {
    if iso == ZERO_TIMESTAMP {
        return zero_timestamp(digits);
    }
    let text = iso.strip_suffix(b"Z")?;
    if text.get(DATE) != Some(&b'T') {
        return None;
    }
    let mut moved = Short::new();
    moved.push(&text[..DATE])?;
    moved.push(b" ")?;
    moved.push(text.get(DATE + 1..WHOLE)?)?;
    let fraction = &text[WHOLE..];
    let given = fraction_digits(fraction)?;
    unmoved_micros(&moved)?;
    if given > 0 || digits.unwrap_or(0) > 0 {
        push_fraction(fraction_micros(fraction), Some(digits.unwrap_or(given)), &mut moved)?;
    }
    Some(Text::from(moved))
}

/// How many digits a TIMESTAMP of ISO text in UTC has behind its point. None if it is none, or before its
/// first second.
pub fn digits_of_iso_timestamp(iso: &[u8]) -> Option<usize> {
    let text = iso.strip_suffix(b"Z")?;
    let (whole, fraction) = text.split_at_checked(WHOLE)?;
    if !ISO_FORM.fits(whole) || whole <= MIDNIGHT_1970 {
        return None;
    }
    days(whole)?;
    clock(&whole[DATE + 1..])?;
    fraction_digits(fraction)
}

fn zero_timestamp<'a>(digits: Option<usize>) -> Option<Text<'a>> {
    let mut text = Short::new();
    text.push(b"0000-00-00 00:00:00")?;
    if let Some(digits @ 1..) = digits {
        text.push(b".")?;
        text.fill(b'0', digits)?;
    }
    Some(Text::from(text))
}

/// Whether a text is the zero TIMESTAMP, with zeros behind its point, too.
fn is_midnight_1970(iso: &[u8]) -> bool {
    let Some(behind) = iso.strip_prefix(MIDNIGHT_1970) else { return false };
    match behind.strip_suffix(b"Z") {
        Some(fraction) => fraction.is_empty() || fraction_micros_if(fraction) == Some(0),
        None => false,
    }
}

fn fraction_micros_if(fraction: &[u8]) -> Option<u32> {
    fraction_digits(fraction).map(|_| fraction_micros(fraction))
}

/// The same as Debezium has it, whose zero TIMESTAMP may have digits.
pub fn of_zoned(iso: &[u8], digits: Option<usize>) -> Option<Text<'_>> {
    if is_midnight_1970(iso) { zero_timestamp(digits) } else { of_iso_timestamp(iso, digits) }
}

/// A DATETIME of ISO text.
pub fn of_wall(iso: &[u8], digits: Option<usize>) -> Option<Text<'_>> {
    if is_midnight_1970(iso) { datetime_text(0, digits) } else { of_iso_timestamp(iso, digits) }
}

/// The TIME of a time of day.
pub fn of_iso_time(iso: &[u8], digits: Option<usize>) -> Option<Text<'_>> {
    let text = iso.strip_suffix(b"Z").unwrap_or(iso);
    let is_one = text.get(2) == Some(&b':') && is_time(text);
    if is_one { time_text(time_micros(text)?, digits) } else { None }
}

/// A DATETIME as ISO text with an end.
pub fn iso(text: &[u8], end: &[u8], calendar: bool) -> Option<Short> {
    if !is_datetime(text) || (calendar && days(text).is_none()) {
        return None;
    }
    joined(text, &text[DATE + 1..], end)
}

fn joined(date: &[u8], clock: &[u8], end: &[u8]) -> Option<Short> {
    let mut iso = Short::new();
    iso.push(&date[..DATE])?;
    iso.push(b"T")?;
    iso.push(clock)?;
    iso.push(end)?;
    Some(iso)
}

/// A TIMESTAMP as ISO text in UTC, with so many digits (None: those that it has). `zero`: also the zero one.
pub fn iso_timestamp(text: &[u8], digits: Option<usize>, zero: bool) -> Option<Short> {
    if !is_datetime(text) {
        return None;
    }
    if zero && text.starts_with(b"0000-00-00") {
        clock(&text[DATE + 1..])?;
        let mut iso = Short::new();
        iso.push(ZERO_TIMESTAMP)?;
        return Some(iso);
    }
    datetime_micros(text)?;
    if text < FIRST_TIMESTAMP {
        return None;
    }
    let mut iso = joined(text, &text[DATE + 1..WHOLE], b"")?;
    let fraction = &text[WHOLE..];
    match digits {
        None => iso.push(fraction)?,
        digits => push_fraction(fraction_micros(fraction), digits, &mut iso)?,
    }
    iso.push(b"Z")?;
    Some(iso)
}

/// A time without the zeros behind its last digit.
fn shortest(text: &[u8]) -> &[u8] {
    if !text.contains(&b'.') {
        return text;
    }
    let end = text.iter().rposition(|&byte| byte != b'0').map_or(0, |at| at + 1);
    text[..end].strip_suffix(b".").unwrap_or(&text[..end])
}

/// A DATETIME as ISO text with the digits that it needs.
pub fn iso_datetime(text: &[u8]) -> Option<Short> {
    datetime_micros(text)?;
    joined(text, shortest(&text[DATE + 1..]), b"Z")
}

/// A TIME of a day as ISO text.
pub fn iso_time(text: &[u8]) -> Option<Short> {
    let micros = time_micros(text)?;
    if text.get(2) != Some(&b':') || !(0..DAY_MICROS).contains(&micros) {
        return None;
    }
    let mut iso = Short::new();
    iso.push(shortest(text))?;
    iso.push(b"Z")?;
    Some(iso)
}
