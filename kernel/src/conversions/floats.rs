//! FLOAT and DOUBLE: the shortest digits, in the notations of Go, Java, Python and msgspec.

use super::text::Short;
use crate::json;

/// From here on a number is beyond 32 bits: 2^128 - 2^103.
const BEYOND_FLOAT: f64 = 340282356779733661637539395458142568448.0;
const LEAST_FLOAT: f64 = f32::MIN_POSITIVE as f64;
/// Up to here whole numbers are exact: 2^53.
const EXACT: f64 = 9007199254740992.0;
/// Nine digits tell all 32-bit numbers apart; any six digits are kept by a 32-bit number.
const FLOAT_DIGITS: usize = 9;
const SURE_FLOAT_DIGITS: usize = 6;

/// The shortest digits of a number that is not 0: `0.digits` times ten to the power of `point`.
struct Digits {
    negative: bool,
    digits: [u8; 20],
    count: usize,
    point: i32,
}

impl Digits {
    fn as_slice(&self) -> &[u8] {
        &self.digits[..self.count]
    }
}

fn shortest(value: f64) -> Digits {
    digits(ryu::Buffer::new().format_finite(value).as_bytes())
}

/// The digits of a text such as `-12.5e-7`, without zeros before and behind them.
fn digits(text: &[u8]) -> Digits {
    let mut found = Digits { negative: false, digits: [0; 20], count: 0, point: 0 };
    let (mut is_whole, mut zeros) = (true, 0);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'-' => found.negative = true,
            b'.' => is_whole = false,
            b'e' => {
                let exponent = std::str::from_utf8(&text[at + 1..]).ok().and_then(|text| text.parse().ok());
                found.point += exponent.unwrap_or(0);
                break;
            }
            _ => {
                found.point += i32::from(is_whole && (found.count > 0 || byte != b'0'));
                found.point -= i32::from(!is_whole && found.count == 0 && byte == b'0');
                if byte == b'0' {
                    zeros += 1;
                    continue;
                }
                if found.count > 0 {
                    found.count += zeros;
                }
                zeros = 0;
                if let Some(place) = found.digits.get_mut(found.count) {
                    *place = byte;
                }
                found.count += 1;
            }
        }
    }
    for place in &mut found.digits {
        *place = (*place).max(b'0');
    }
    found.count = found.count.min(20);
    found
}

/// Whether the shortest digits of a number are a decimal's.
pub fn has_digits(value: f64, decimal: &[u8]) -> Option<bool> {
    let own = shortest(value);
    let mut point = super::decimals::whole_digits(decimal) as i32;
    let mut given = Short::new();
    for &byte in decimal.iter().filter(|byte| byte.is_ascii_digit()) {
        if byte == b'0' && given.is_empty() {
            point -= 1;
        } else {
            given.push(&[byte])?;
        }
    }
    let end = given.iter().rposition(|&byte| byte != b'0').map_or(0, |at| at + 1);
    Some(own.as_slice() == &given[..end] && (own.point == point || end == 0))
}

// ---------------------------------------------------------------- reading

/// A number's text in any notation.
pub fn of_text(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+');
    if !digits.first()?.is_ascii_digit() || !digits.iter().all(number) {
        return None;
    }
    json::float(text)
}

pub fn is_float(value: f64) -> bool {
    value.abs() < BEYOND_FLOAT
}

/// The number with the fewest digits of the same 32 bits, where that is certain.
pub fn shortest_float(value: f64) -> Option<f64> {
    let size = value.abs();
    if value == 0.0 || (size < 10_000.0 && (value * 1000.0).fract() == 0.0) {
        return Some(value);
    }
    if !(LEAST_FLOAT..BEYOND_FLOAT).contains(&size) {
        return None;
    }
    let exact = value as f32;
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(exact);
    let candidate: f64 = text.parse().ok()?;
    let count = digits(text.as_bytes()).count;
    // Beside a power of two the nearest digits are not always the shortest.
    let is_power = exact.to_bits() & 0x007f_ffff == 0;
    if !exact.is_finite() || (count > SURE_FLOAT_DIGITS && is_power) {
        return None;
    }
    let is_same = candidate == value || f64::from(exact) == value || shortest(value).count <= FLOAT_DIGITS;
    is_same.then_some(candidate)
}

/// The same of text. Up to 6 digits are the shortest already.
pub fn float_of_text(text: &[u8]) -> Option<f64> {
    let value = of_text(text)?;
    let size = value.abs();
    if value == 0.0 || (text.len() <= 7 && (LEAST_FLOAT..BEYOND_FLOAT).contains(&size)) {
        return Some(value);
    }
    shortest_float(value)
}

// ---------------------------------------------------------------- writing

/// Digits without an exponent.
fn positional(digits: &Digits, out: &mut Vec<u8>) {
    if digits.negative {
        out.push(b'-');
    }
    let all = digits.as_slice();
    match usize::try_from(digits.point) {
        Ok(0) | Err(_) => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + digits.point.unsigned_abs() as usize, b'0');
            out.extend_from_slice(all);
        }
        Ok(point) if point < all.len() => {
            out.extend_from_slice(&all[..point]);
            out.push(b'.');
            out.extend_from_slice(&all[point..]);
        }
        _ => {
            out.extend_from_slice(all);
            out.resize(out.len() + digits.point as usize - all.len(), b'0');
        }
    }
}

/// Digits with an exponent: `1.5` and what stands before the exponent, which is at least so many digits.
fn scientific(digits: &Digits, fraction: &[u8], letter: &[u8], least: usize, out: &mut Vec<u8>) {
    if digits.negative {
        out.push(b'-');
    }
    let (first, rest) = digits.as_slice().split_at(1.min(digits.count));
    out.extend_from_slice(first);
    if rest.is_empty() {
        out.extend_from_slice(fraction);
    } else {
        out.push(b'.');
        out.extend_from_slice(rest);
    }
    out.extend_from_slice(letter);
    let exponent = digits.point - 1;
    if exponent < 0 {
        out.push(b'-');
    } else if least > 1 {
        out.push(b'+');
    }
    let size = exponent.unsigned_abs();
    if least > 1 && size < 10 {
        out.push(b'0');
    }
    out.extend_from_slice(itoa::Buffer::new().format(size).as_bytes());
}

/// Numbers that every notation but an exponent's prints with these digits, and the end of whole ones apart.
fn is_plain(value: f64) -> bool {
    (1e-5..1e16).contains(&value.abs()) || value == 0.0
}

/// Print a number that is plain, a whole one with `.0` or without.
fn print_plain(value: f64, keeps_point: bool, out: &mut Vec<u8>) {
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value).as_bytes();
    let whole = if keeps_point { None } else { text.strip_suffix(b".0") };
    out.extend_from_slice(whole.unwrap_or(text));
}

/// Go's notation in text: no exponent, no `.0`.
pub fn print_go_text(value: f64, out: &mut Vec<u8>) -> Option<()> {
    if !value.is_finite() {
        return None;
    }
    out.push(b'"');
    if is_plain(value) {
        print_plain(value, false, out);
    } else {
        positional(&shortest(value), out);
    }
    out.push(b'"');
    Some(())
}

/// Java's notation in text: an exponent below 0.001 and from ten millions on. Not of the smallest numbers, of
/// which Java prints other digits; `least`: the smallest of which it does not.
pub fn print_java_number(value: f64, least: f64, out: &mut Vec<u8>) -> Option<()> {
    let size = value.abs();
    if !value.is_finite() || (size < least && value != 0.0) {
        return None;
    }
    if value == 0.0 || (0.001..10_000_000.0).contains(&size) {
        print_plain(value, true, out);
    } else {
        scientific(&shortest(value), b".0", b"E", 1, out);
    }
    Some(())
}

/// The same as text.
pub fn print_java_text(value: f64, least: f64, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'"');
    print_java_number(value, least, out)?;
    out.push(b'"');
    Some(())
}

pub const LEAST_JAVA_DOUBLE: f64 = f64::MIN_POSITIVE;
pub const LEAST_JAVA_FLOAT: f64 = LEAST_FLOAT;

/// TiCDC's number: Go's shortest digits, positional from 1e-6 to below 1e21, without `.0`.
pub fn print_go_number(value: f64, out: &mut Vec<u8>) -> Option<()> {
    let size = value.abs();
    if !value.is_finite() {
        return None;
    }
    if size < EXACT && value.fract() == 0.0 {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        return json::print_integer(value as i128, out);
    }
    if is_plain(value) {
        print_plain(value, false, out);
    } else if (1e-6..1e21).contains(&size) {
        positional(&shortest(value), out);
    } else {
        scientific(&shortest(value), b"", b"e", 2, out);
    }
    Some(())
}
