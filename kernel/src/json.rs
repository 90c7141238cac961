//! JSON: where tokens end, what strings mean, and how values are printed by msgspec.

use std::borrow::Cow;

use crate::token::{Escapes, Kind, Token};

/// Within how many bytes of a part's end strings may have escapes that must be rewritten;
/// `relay.templates.ops.MOST_REWRITTEN`.
const MOST_REWRITTEN: usize = 8192;

/// A bit in each byte.
pub const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES * 128;

/// The token at the beginning of a text, and what stands behind it. None if it is of no kind.
pub fn token(text: &[u8]) -> Option<(Token<'_>, &[u8])> {
    let (length, kind, escapes) = measure(text)?;
    let (text, rest) = text.split_at_checked(length)?;
    Some((Token { text, kind, escapes }, rest))
}

/// The length of the token at the beginning of a text, and what it is. None if it is of no kind.
pub fn measure(text: &[u8]) -> Option<(usize, Kind, Escapes)> {
    match *text.first()? {
        b'"' => string(text).map(|(length, escapes)| (length, Kind::Text, escapes)),
        b'n' => Some((literal(text, b"null")?, Kind::Null, Escapes::None)),
        b't' => Some((literal(text, b"true")?, Kind::Boolean, Escapes::None)),
        b'f' => Some((literal(text, b"false")?, Kind::Boolean, Escapes::None)),
        _ => number(text).map(|(length, kind)| (length, kind, Escapes::None)),
    }
}

fn literal(text: &[u8], literal: &[u8]) -> Option<usize> {
    text.starts_with(literal).then_some(literal.len())
}

// ---------------------------------------------------------------- numbers

#[inline]
fn number(text: &[u8]) -> Option<(usize, Kind)> {
    let sign = usize::from(text.first() == Some(&b'-'));
    let end = sign + digits(text.get(sign..)?);
    match text.get(end) {
        // Most numbers are like this: they fit in 64 bits, have no leading zeros, and are not `-0`.
        Some(b',' | b'}')
            if (sign + 1..sign + SURE_DIGITS).contains(&end) && text.get(sign) != Some(&b'0') =>
        {
            Some((end, Kind::Integer))
        }
        _ => any_number(text, sign, end),
    }
}

/// A number whose sign and first digits are known.
#[inline(never)]
fn any_number(text: &[u8], sign: usize, end: usize) -> Option<(usize, Kind)> {
    let (mut at, whole) = (end, end - sign);
    if whole == 0 || (whole > 1 && text[sign] == b'0') {
        return None;
    }
    let mut kind = Kind::Integer;
    if text.get(at) == Some(&b'.') {
        at += 1 + at_least_one(digits(&text[at + 1..]))?;
        kind = Kind::Number;
    }
    let mut finite = at <= 300;
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at += 1 + sign + at_least_one(digits(&text[at + 1 + sign..]))?;
        kind = Kind::Number;
        finite = false;
    }
    if let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E') = text.get(at) {
        return None;
    }
    let token = &text[..at];
    match kind {
        Kind::Integer => (whole < SURE_DIGITS && token != b"-0") || integer(token).is_some(),
        _ => finite || float(token).is_some(),
    }
    .then_some((at, kind))
}

/// How many digits a text begins with.
#[inline]
fn digits(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let values = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'0'));
        // The lowest set bit is in the first byte that is above 9.
        let others = (values.wrapping_add(ONES * (128 - 10)) | values) & HIGH;
        if others != 0 {
            return text.len() - rest.len() + others.trailing_zeros() as usize / 8;
        }
        rest = behind;
    }
    let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    text.len() - rest.len() + count
}

fn at_least_one(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}

/// This many digits fit in 64 bits, whatever they are.
const SURE_DIGITS: usize = 19;

/// Whether a text is an integer as messages have it.
pub fn is_integer(text: &[u8]) -> bool {
    let few = text.len() < SURE_DIGITS && text.first().is_some_and(|&byte| byte != b'0');
    (few && text.iter().all(u8::is_ascii_digit)) || integer(text).is_some()
}

/// The value of an integer as messages have it: no `-0`, no zeros before it, from -2^63 to 2^64 - 1.
pub fn integer(text: &[u8]) -> Option<i128> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let negative = digits.len() < text.len();
    if digits.is_empty() || digits.len() > 20 || (digits[0] == b'0' && text.len() > 1) {
        return None;
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (sure, rest) = digits.split_at(digits.len().min(SURE_DIGITS));
    let add = |value: u64, byte: &u8| value * 10 + u64::from(byte & 15);
    let mut value = sure.iter().fold(0, add);
    for byte in rest {
        value = value.checked_mul(10)?.checked_add(u64::from(byte & 15))?;
    }
    let value = if negative { -i128::from(value) } else { i128::from(value) };
    is_64_bits(value).then_some(value)
}

/// The value of a token of kind `integer` within 64 bits with sign, as most are; None for others.
#[inline]
pub fn short_integer(token: &[u8]) -> Option<i64> {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    if digits.len() > SURE_DIGITS {
        return None;
    }
    let value = i64::try_from(value_of(digits)).ok()?;
    Some(if digits.len() < token.len() { -value } else { value })
}

/// The value of digits, of which there are not too many.
#[inline]
fn value_of(digits: &[u8]) -> u64 {
    let (mut value, mut scale) = (0, 1);
    let mut rest = digits;
    while let Some((before, word)) = rest.split_last_chunk::<8>() {
        value += scale * value_of_eight(*word);
        scale *= 100_000_000;
        rest = before;
    }
    value + scale * rest.iter().fold(0, |value, &byte| value * 10 + u64::from(byte & 15))
}

/// The value of eight digits: of pairs of them, of pairs of these, and of both.
#[inline]
fn value_of_eight(digits: [u8; 8]) -> u64 {
    let ones = u64::from_le_bytes(digits) & (ONES * 15);
    let pairs = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// Whether msgspec prints this integer.
pub fn is_64_bits(value: i128) -> bool {
    i128::from(i64::MIN) <= value && value <= i128::from(u64::MAX)
}

/// The value of a number with fraction or exponent, if it is finite.
pub fn float(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

// ---------------------------------------------------------------- strings

/// The length of the string at the beginning, with its quotes.
#[inline]
fn string(text: &[u8]) -> Option<(usize, Escapes)> {
    let mut high = 0;
    let end = 1 + plain(text.get(1..)?, &mut high);
    if text.get(end) == Some(&b'"') && high & HIGH == 0 {
        return Some((end + 1, Escapes::None));
    }
    any_string(text, end, high)
}

/// A string that is plain up to an end, with bytes whose bits are known.
#[inline(never)]
fn any_string(text: &[u8], end: usize, mut high: u64) -> Option<(usize, Escapes)> {
    let mut at = end;
    let mut escapes = Escapes::None;
    loop {
        match *text.get(at)? {
            b'"' => break,
            b'\\' => {
                let (length, its) = escape(&text[at..])?;
                if its == Escapes::Other && text.len() > MOST_REWRITTEN {
                    return None;
                }
                escapes = escapes.max(its);
                at += length;
            }
            _ => return None,
        }
        // In a text full of escapes nothing has to be looked for.
        if text.get(at) != Some(&b'\\') {
            at += plain(text.get(at..)?, &mut high);
        }
    }
    if high & HIGH != 0 {
        simdutf8::basic::from_utf8(&text[..at]).ok()?;
    }
    Some((at + 1, escapes))
}

/// How many bytes come before the next quote, backslash or control character; `high` gets all bits of them
/// (and perhaps of what follows).
#[inline]
fn plain(text: &[u8], high: &mut u64) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let special = special(word);
        if special != 0 {
            let before = special.trailing_zeros() / 8;
            *high |= word & ((1u64 << (8 * before)) - 1);
            return text.len() - rest.len() + before as usize;
        }
        *high |= word;
        rest = behind;
    }
    for (index, &byte) in rest.iter().enumerate() {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            return text.len() - rest.len() + index;
        }
        *high |= u64::from(byte);
    }
    text.len()
}

/// A word whose lowest set bit is in the first byte that is a quote, a backslash or a control character.
#[inline]
fn special(word: u64) -> u64 {
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    // Quote and backslash change no highest bit, so that `below` of all three is this.
    let lower = quote.wrapping_sub(ONES) | backslash.wrapping_sub(ONES) | word.wrapping_sub(ONES * 0x20);
    lower & !word & HIGH
}

/// A word whose lowest set bit is in the first byte that is below a number of at most 128.
#[inline]
pub fn below(word: u64, end: u64) -> u64 {
    word.wrapping_sub(ONES * end) & !word & HIGH
}

/// The length of the escape at the beginning, and how it is written. A surrogate is one with its other half.
fn escape(text: &[u8]) -> Option<(usize, Escapes)> {
    match *text.get(1)? {
        b'"' | b'\\' | b'n' | b'r' | b't' => Some((2, Escapes::Canonical)),
        b'b' | b'f' => Some((2, Escapes::Short)),
        b'/' => Some((2, Escapes::Other)),
        b'u' if text.starts_with(b"\\u00") && matches!(text.get(4), Some(b'0' | b'1')) => {
            let is_short = |last| text[4] == b'0' && matches!(last, b'8' | b'9' | b'a' | b'c' | b'd');
            match *text.get(5)? {
                b'A'..=b'F' => Some((6, Escapes::Other)),
                last @ (b'0'..=b'9' | b'a'..=b'f') if is_short(last) => Some((6, Escapes::Other)),
                b'0'..=b'9' | b'a'..=b'f' => Some((6, Escapes::Canonical)),
                _ => None,
            }
        }
        b'u' => {
            let (character, length) = unicode(text)?;
            let canonical =
                character < ' ' && short(character).is_none() && text.starts_with(&escaped(character));
            Some((length, if canonical { Escapes::Canonical } else { Escapes::Other }))
        }
        _ => None,
    }
}

/// The character of the `\u` escape at the beginning, and the escape's length.
#[inline]
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let first = unit(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = unit(text.get(6..)?)?;
    if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

#[inline]
fn unit(text: &[u8]) -> Option<u32> {
    let &[b'\\', b'u', a, b, c, d, ..] = text else { return None };
    let digit = |digit: u8| DIGITS[usize::from(digit)];
    let unit = digit(a) << 12 | digit(b) << 8 | digit(c) << 4 | digit(d);
    (unit < NO_DIGIT).then_some(unit)
}

/// More than four digits come to.
const NO_DIGIT: u32 = 0x10000;
/// What hexadecimal digits mean.
const DIGITS: [u32; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        digits[b"0123456789abcdef"[digit] as usize] = digit as u32;
        digits[b"0123456789ABCDEF"[digit] as usize] = digit as u32;
        digit += 1;
    }
    digits
};

/// The letter of the short escape of a character.
fn short(character: char) -> Option<u8> {
    Some(match character {
        '"' => b'"',
        '\\' => b'\\',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\x08' => b'b',
        '\x0c' => b'f',
        _ => return None,
    })
}

/// The long escape of a control character; none of another one is like it.
fn escaped(control: char) -> [u8; 6] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let code = control as usize;
    [b'\\', b'u', b'0', b'0', HEX[code >> 4 & 15], HEX[code & 15]]
}

/// Print what a string's inside means: what has no escapes as it is, and single characters.
#[inline]
fn transcode(mut inside: &[u8], out: &mut Vec<u8>, print: impl Fn(char, &mut Vec<u8>)) -> Option<()> {
    loop {
        if inside.first() != Some(&b'\\') {
            inside = &inside[append_plain(inside, out)..];
        }
        if inside.is_empty() {
            return Some(());
        }
        let (character, length) = character(inside)?;
        print(character, out);
        inside = inside.get(length..)?;
    }
}

/// Append the bytes before the next backslash, and give their number. In a text full of escapes they are few,
/// and eight are cheaper to copy than a number that is not known.
#[inline]
fn append_plain(text: &[u8], out: &mut Vec<u8>) -> usize {
    if let Some(word) = text.first_chunk::<8>() {
        let backslash = below(u64::from_le_bytes(*word) ^ (ONES * u64::from(b'\\')), 1);
        if backslash != 0 {
            let count = backslash.trailing_zeros() as usize / 8;
            let end = out.len() + count;
            out.extend_from_slice(word);
            out.truncate(end);
            return count;
        }
    }
    let (plain, _) = text.split_at(memchr::memchr(b'\\', text).unwrap_or(text.len()));
    out.extend_from_slice(plain);
    plain.len()
}

#[inline]
fn character(escape: &[u8]) -> Option<(char, usize)> {
    let character = match *escape.get(1)? {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\x08',
        b'f' => '\x0c',
        b'u' => return unicode(escape),
        other => char::from(other),
    };
    Some((character, 2))
}

/// What a string means, in UTF-8.
pub fn meaning<'a>(token: &Token<'a>) -> Option<Cow<'a, [u8]>> {
    let inside = token.inside();
    if token.escapes == Escapes::None {
        return Some(Cow::Borrowed(inside));
    }
    let mut meant = Vec::with_capacity(inside.len());
    transcode(inside, &mut meant, push)?;
    Some(Cow::Owned(meant))
}

// ---------------------------------------------------------------- printing

/// How a target writes `\b` and `\f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongEscapes(pub bool);

/// Print a string token with the target's escapes.
pub fn print_string(token: &Token<'_>, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
    if token.escapes <= Escapes::Canonical || (token.escapes == Escapes::Short && !how.0) {
        out.extend_from_slice(token.text);
        return Some(());
    }
    out.push(b'"');
    transcode(token.inside(), out, |character, out| print_character(character, how, out))?;
    out.push(b'"');
    Some(())
}

/// Print a text as a JSON string.
pub fn print_text(text: &[u8], how: LongEscapes, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_at(plain(rest, &mut 0));
        out.extend_from_slice(before);
        let Some((&byte, behind)) = behind.split_first() else { break };
        print_character(char::from(byte), how, out);
        rest = behind;
    }
    out.push(b'"');
}

/// Print a text as a JSON string, and give how its escapes are written.
pub fn print_token(text: &[u8], out: &mut Vec<u8>) -> Escapes {
    let start = out.len();
    print_text(text, LongEscapes(false), out);
    if out.len() - start == text.len() + 2 {
        Escapes::None
    } else if text.iter().any(|byte| matches!(byte, 0x08 | 0x0c)) {
        Escapes::Short
    } else {
        Escapes::Canonical
    }
}

/// The same as Go prints it, with escapes for `<`, `>`, `&`, U+2028 and U+2029.
pub fn print_html_text(text: &[u8], how: LongEscapes, out: &mut Vec<u8>) {
    let start = out.len();
    print_text(text, how, out);
    let is_html = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
    if !out[start..].iter().any(is_html) {
        return;
    }
    let printed = out.split_off(start);
    let mut rest = printed.as_slice();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match rest {
            [b'<' | b'>' | b'&', ..] => {
                out.extend_from_slice(&escaped(char::from(byte)));
                behind
            }
            [0xe2, 0x80, last @ (0xa8 | 0xa9), behind @ ..] => {
                out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                behind
            }
            _ => {
                out.push(byte);
                behind
            }
        };
    }
}

fn print_character(character: char, how: LongEscapes, out: &mut Vec<u8>) {
    match short(character) {
        Some(letter) if !(how.0 && matches!(letter, b'b' | b'f')) => out.extend_from_slice(&[b'\\', letter]),
        _ if character < ' ' => out.extend_from_slice(&escaped(character)),
        _ => push(character, out),
    }
}

/// Append a character in UTF-8. Two bytes are cheaper to push than to copy.
#[inline]
fn push(character: char, out: &mut Vec<u8>) {
    let code = u32::from(character);
    match character.len_utf8() {
        1 => out.push(code as u8),
        2 => {
            out.push(0xc0 | (code >> 6) as u8);
            out.push(0x80 | (code & 0x3f) as u8);
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Print an integer in digits. None beyond 64 bits.
pub fn print_integer(value: i128, out: &mut Vec<u8>) -> Option<()> {
    let mut digits = itoa::Buffer::new();
    let digits = match i64::try_from(value) {
        Ok(value) => digits.format(value),
        Err(_) => digits.format(u64::try_from(value).ok()?),
    };
    out.extend_from_slice(digits.as_bytes());
    Some(())
}

/// Print a float; what is not finite is null.
pub fn print_float(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else {
        out.extend_from_slice(b"null");
    }
}
