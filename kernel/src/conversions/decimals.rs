//! DECIMAL: digits without an exponent, with all the zeros of its scale.
//!
//! A decimal is its text, `-?(0|[1-9][0-9]*)(\.[0-9]+)?`: what is read and written as text is not even copied.

use super::floats;
use super::text::{Short, Text};

/// DECIMAL has at most 65 digits, of which 30 are behind the point (38 in MariaDB).
const MOST_WHOLE: usize = 65;
const MOST_FRACTION: usize = 38;
/// Every 64-bit number keeps this many digits.
const SAFE_DIGITS: usize = 15;
/// Bytes that a number has at most.
const MOST_BYTES: usize = 40;

/// A number's text, taken apart.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i32,
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn parts(text: &[u8]) -> Option<Parts<'_>> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, mut rest) = split_digits(unsigned);
    let mut fraction: &[u8] = b"";
    if let Some(behind) = rest.strip_prefix(b".") {
        (fraction, rest) = split_digits(behind);
        if fraction.is_empty() {
            return None;
        }
    }
    let mut exponent = 0;
    if let [b'e' | b'E', behind @ ..] = rest {
        let digits = behind.strip_prefix(b"-").or_else(|| behind.strip_prefix(b"+")).unwrap_or(behind);
        if digits.len() > 3 {
            return None;
        }
        let size: i32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        exponent = if behind.starts_with(b"-") { -size } else { size };
        rest = b"";
    }
    if whole.is_empty() || !rest.is_empty() {
        return None;
    }
    (whole.len() <= MOST_WHOLE && fraction.len() <= MOST_FRACTION).then_some(Parts {
        negative: unsigned.len() < text.len(),
        whole,
        fraction,
        exponent,
    })
}

/// A time in seconds, in nanoseconds, rounding down; None of a text with an exponent or a sign, and beyond 64
/// bits with sign.
pub fn nanos(text: &[u8]) -> Option<i128> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = split_digits(rest.strip_prefix(b".").unwrap_or(rest));
    if whole.is_empty() || whole.len() > 11 || fraction.len() > NANOS_DIGITS || !rest.is_empty() {
        return None;
    }
    let digits = whole.iter().chain(fraction);
    let found = digits.fold(0, |number, &digit| number * 10 + i128::from(digit & 15));
    let found = found * 10_i128.pow((NANOS_DIGITS - fraction.len()) as u32);
    i64::try_from(found).ok().map(i128::from)
}

/// Digits of a second in nanoseconds.
const NANOS_DIGITS: usize = 9;

/// A decimal as Java prints it: what is near to 0 for its digits has an exponent.
pub fn print_java_number(decimal: &[u8], out: &mut Vec<u8>) {
    let unsigned = decimal.strip_prefix(b"-").unwrap_or(decimal);
    let fraction = unsigned.strip_prefix(b"0.").unwrap_or(b"");
    let last = fraction.len().saturating_sub(1);
    let zeros = fraction.iter().take(last).take_while(|&&digit| digit == b'0').count();
    if fraction.is_empty() || zeros < PLAIN_ZEROS {
        out.extend_from_slice(decimal);
        return;
    }
    if unsigned.len() < decimal.len() {
        out.push(b'-');
    }
    out.push(fraction[zeros]);
    let more = &fraction[zeros + 1..];
    if !more.is_empty() {
        out.push(b'.');
        out.extend_from_slice(more);
    }
    out.extend_from_slice(format!("E-{}", zeros + 1).as_bytes());
}

/// With so many zeros behind the point a decimal has an exponent.
const PLAIN_ZEROS: usize = 6;

/// Whether a text is a decimal with at least so many digits behind its point.
pub fn is_text(text: &[u8], scale: usize) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    let is_whole = match whole {
        [] => false,
        [first, more @ ..] => (more.is_empty() || *first != b'0') && more.len() < MOST_WHOLE,
    };
    is_whole
        && match rest {
            [] => scale == 0,
            [b'.', fraction @ ..] => {
                let is_one = (1..=MOST_FRACTION).contains(&fraction.len()) && fraction.len() >= scale;
                is_one && fraction.iter().all(u8::is_ascii_digit)
            }
            _ => false,
        }
}

/// A decimal of digits without an exponent, with at least so many behind its point.
pub fn of_text(text: Text<'_>, scale: usize) -> Option<Text<'_>> {
    let Parts { negative, whole, fraction, exponent } = parts(&text)?;
    let zeros = whole.iter().take(whole.len() - 1).take_while(|&&byte| byte == b'0').count();
    if exponent != 0 || text.contains(&b'e') || text.contains(&b'E') {
        return None;
    }
    if zeros > 0 {
        // ZEROFILL, which has no sign.
        let mut plain = Short::new();
        plain.push(text.get(zeros..).filter(|_| !negative)?)?;
        return of_text(Text::from(plain), scale);
    }
    let missing = scale.saturating_sub(fraction.len());
    if missing == 0 {
        return Some(text);
    }
    let mut longer = Short::new();
    longer.push(&text)?;
    if fraction.is_empty() {
        longer.push(b".")?;
    }
    longer.fill(b'0', missing)?;
    Some(Text::from(longer))
}

/// A decimal of a JSON number, which may have an exponent. `zeros`: whether zeros beyond the scale are left
/// out; a zero has no sign then.
pub fn of_number<'a>(text: &'a [u8], scale: Option<usize>, zeros: bool) -> Option<Text<'a>> {
    let least = scale.unwrap_or(0);
    let Parts { negative, whole, fraction, exponent } = parts(text)?;
    let mut digits = Short::new();
    digits.push(whole)?;
    digits.push(fraction)?;
    let zero = digits.iter().all(|&byte| byte == b'0');
    if zero && !zeros && negative {
        return None; // a parser may have lost the sign
    }
    if zero && zeros {
        let mut plain = Short::new();
        plain.push(b"0")?;
        return of_text(Text::from(plain), least);
    }
    // How many digits stand behind the point; below 0 zeros are missing before it.
    let mut behind = fraction.len() as i32 - exponent;
    let mut digits = &digits[..];
    if let (Some(scale), true) = (scale, zeros) {
        while behind > scale as i32 {
            let Some(shorter) = digits.strip_suffix(b"0") else { break };
            digits = shorter;
            behind -= 1;
        }
    }
    if exponent == 0 && digits.len() == whole.len() + fraction.len() {
        return of_text(Text::Borrowed(text), least);
    }
    let mut plain = Short::new();
    if negative {
        plain.push(b"-")?;
    }
    let digits = &digits[digits.iter().position(|&byte| byte != b'0').unwrap_or(0)..];
    let behind = usize::try_from(behind).unwrap_or(0);
    let missing = usize::try_from(exponent - fraction.len() as i32).unwrap_or(0);
    if missing > 0 {
        plain.push(digits)?;
        plain.fill(b'0', missing)?;
    } else if digits.len() > behind {
        plain.push(&digits[..digits.len() - behind])?;
        if behind > 0 {
            plain.push(b".")?;
            plain.push(&digits[digits.len() - behind..])?;
        }
    } else {
        plain.push(b"0.")?;
        plain.fill(b'0', behind - digits.len())?;
        plain.push(digits)?;
    }
    of_text(Text::from(plain), least)
}

/// How many digits stand before the point.
pub fn whole_digits(decimal: &[u8]) -> usize {
    let unsigned = decimal.strip_prefix(b"-").unwrap_or(decimal);
    split_digits(unsigned).0.len()
}

/// Whether there is but a zero before the point.
pub fn is_below_one(decimal: &[u8]) -> bool {
    let unsigned = decimal.strip_prefix(b"-").unwrap_or(decimal);
    split_digits(unsigned).0 == b"0"
}

/// The greatest decimal of a column, or the least, if a greater number is the same as a float.
pub fn greatest<'a>(decimal: &[u8], length: usize, scale: usize) -> Option<Text<'a>> {
    let whole = length.checked_sub(scale)?;
    if whole_digits(decimal) <= whole.max(1) && (whole > 0 || is_below_one(decimal)) {
        return None;
    }
    let mut text = Short::new();
    if decimal.starts_with(b"-") {
        text.push(b"-")?;
    }
    match whole {
        0 => text.push(b"0")?,
        _ => text.fill(b'9', whole)?,
    }
    if scale > 0 {
        text.push(b".")?;
        text.fill(b'9', scale)?;
    }
    let value = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    (value(decimal)? == value(&text)?).then_some(Text::from(text))
}

/// The float of a decimal, and whether it has the same digits.
fn nearest_float(decimal: &[u8]) -> Option<(f64, bool)> {
    let value: f64 = std::str::from_utf8(decimal).ok()?.parse().ok()?;
    let digits = decimal.iter().filter(|byte| byte.is_ascii_digit());
    let significant = digits.skip_while(|&&byte| byte == b'0').count();
    Some((value, significant <= SAFE_DIGITS || floats::has_digits(value, decimal)?))
}

/// The float of a decimal, without a sign of zero. None if it has not the same digits.
pub fn float(decimal: &[u8]) -> Option<f64> {
    let (value, is_exact) = nearest_float(decimal)?;
    is_exact.then_some(value + 0.0)
}

/// The float of a decimal that has other digits than it. None if it has the same.
pub fn rounded_float(decimal: &[u8]) -> Option<f64> {
    let (value, is_exact) = nearest_float(decimal)?;
    (!is_exact).then_some(value)
}

// ---------------------------------------------------------------- bytes

/// A number of any size: 32 bits a place, the lowest first.
struct Large([u32; 12], usize);

impl Large {
    /// Multiply and add. None on overflow.
    fn times(&mut self, factor: u32, add: u32) -> Option<()> {
        let mut carry = u64::from(add);
        for place in &mut self.0[..self.1] {
            let product = u64::from(*place) * u64::from(factor) + carry;
            *place = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            *self.0.get_mut(self.1)? = carry as u32;
            self.1 += 1;
        }
        Some(())
    }

    /// Divide, and return what is left.
    fn divided(&mut self, by: u32) -> u32 {
        let mut rest = 0;
        for place in self.0[..self.1].iter_mut().rev() {
            let whole = rest << 32 | u64::from(*place);
            *place = (whole / u64::from(by)) as u32;
            rest = whole % u64::from(by);
        }
        while self.1 > 0 && self.0[self.1 - 1] == 0 {
            self.1 -= 1;
        }
        rest as u32
    }
}

/// The digits of a two's complement, the highest byte first.
fn digits_of(bytes: &[u8]) -> Option<Short> {
    let negative = *bytes.first()? > 0x7f;
    let mut large = Large([0; 12], 0);
    for &byte in bytes {
        large.times(256, u32::from(if negative { !byte } else { byte }))?;
    }
    if negative {
        large.times(1, 1)?;
    }
    let mut groups = [0; 12];
    let mut count = 0;
    while large.1 > 0 {
        *groups.get_mut(count)? = large.divided(1_000_000_000);
        count += 1;
    }
    let mut digits = Short::new();
    let mut first = itoa::Buffer::new();
    digits.push(first.format(groups[count.saturating_sub(1)]).as_bytes())?;
    for group in groups[..count.saturating_sub(1)].iter().rev() {
        digits.digits(u64::from(*group), 9)?;
    }
    Some(digits)
}

/// The decimal of a scale whose unscaled number these bytes are, the highest first.
pub fn of_bytes<'a>(bytes: &[u8], scale: usize) -> Option<Text<'a>> {
    if bytes.is_empty() || bytes.len() > MOST_BYTES {
        return None;
    }
    let mut small = itoa::Buffer::new();
    let (negative, large);
    let digits: &[u8] = match super::integers::of_big_endian(bytes) {
        Some(number) => {
            negative = number < 0;
            small.format(number.unsigned_abs()).as_bytes()
        }
        None => {
            negative = bytes[0] > 0x7f;
            large = digits_of(bytes)?;
            &large
        }
    };
    let mut decimal = Short::new();
    if negative {
        decimal.push(b"-")?;
    }
    if digits.len() <= scale {
        decimal.push(b"0.")?;
        decimal.fill(b'0', scale - digits.len())?;
        decimal.push(digits)?;
    } else {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        decimal.push(whole)?;
        if scale > 0 {
            decimal.push(b".")?;
            decimal.push(fraction)?;
        }
    }
    Some(Text::from(decimal))
}

/// The number of digits of a decimal's unscaled integer, without those beyond `scale`.
pub fn unscaled_digits(decimal: &[u8], scale: usize) -> Option<usize> {
    let Parts { whole, fraction, .. } = parts(decimal)?;
    let zeros = |digits: &[u8]| digits.iter().take_while(|&&digit| digit == b'0').count();
    let whole_digits = whole.len() - zeros(whole);
    if whole_digits > 0 {
        return Some(whole_digits + scale);
    }
    let zeros = zeros(fraction);
    Some(if zeros == fraction.len() { 0 } else { scale.saturating_sub(zeros) })
}

/// The least bytes of a decimal's unscaled number, the highest first. None if it has more digits than the
/// scale.
pub fn bytes(decimal: &[u8], scale: usize) -> Option<Short> {
    let Parts { negative, whole, fraction, .. } = parts(decimal)?;
    let (fraction, beyond) = fraction.split_at(fraction.len().min(scale));
    if beyond.iter().any(|&byte| byte != b'0') {
        return None;
    }
    let zeros = std::iter::repeat_n(&b'0', scale - fraction.len());
    let digits = whole.iter().chain(fraction).chain(zeros).map(|byte| byte - b'0');
    let mut bytes = Short::new();
    if whole.len() + scale <= 38 {
        let number = digits.fold(0, |number: i128, digit| number * 10 + i128::from(digit));
        let (all, start) = super::integers::big_endian(if negative { -number } else { number });
        bytes.push(&all[start..])?;
        return Some(bytes);
    }
    let mut large = Large([0; 12], 0);
    for digit in digits {
        large.times(10, u32::from(digit))?;
    }
    let is_zero = large.1 == 0;
    if negative && !is_zero {
        // The two's complement is what is below it, with all bits turned.
        for place in &mut large.0 {
            let (less, borrowed) = place.overflowing_sub(1);
            *place = less;
            if !borrowed {
                break;
            }
        }
    }
    let all: Vec<u8> = large.0.iter().rev().flat_map(|place| place.to_be_bytes()).collect();
    let size = &all[all.iter().position(|&byte| byte != 0).unwrap_or(all.len())..];
    if size.first().is_none_or(|&byte| byte > 0x7f) {
        bytes.push(b"\0")?;
    }
    bytes.push(size)?;
    if negative && !is_zero {
        let mut turned = Short::new();
        for byte in bytes.iter() {
            turned.push(&[!byte])?;
        }
        return Some(turned);
    }
    Some(bytes)
}
