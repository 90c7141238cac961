//! Binary values, and the texts that stand for them.

use std::borrow::Cow;

use super::text::Text;
use crate::json::{self, LongEscapes};

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NONE: u8 = 0xff;
const HEX: &[u8; 16] = b"0123456789abcdef";

const fn places(alphabets: [&[u8; 64]; 2]) -> [u8; 256] {
    let mut found = [NONE; 256];
    let mut at = 0;
    while at < 64 {
        found[alphabets[0][at] as usize] = at as u8;
        found[alphabets[1][at] as usize] = at as u8;
        at += 1;
    }
    found
}

static STANDARD_PLACES: [u8; 256] = places([STANDARD, STANDARD]);
static ANY_PLACES: [u8; 256] = places([STANDARD, URL_SAFE]);

/// Bytes of base64 with its padding; no bit of the last digit is lost.
fn decoded(text: &[u8], places: &[u8; 256], out: &mut Vec<u8>) -> Option<()> {
    if text.len() % 4 != 0 {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    out.reserve(text.len() / 4 * 3);
    let mut groups = digits.chunks_exact(4);
    let mut beyond = 0;
    for group in &mut groups {
        let digit = |at: usize| u32::from(places[usize::from(group[at])]);
        let (first, second, third, fourth) = (digit(0), digit(1), digit(2), digit(3));
        beyond |= first | second | third | fourth;
        let number = first << 18 | second << 12 | third << 6 | fourth;
        out.extend_from_slice(&[(number >> 16) as u8, (number >> 8) as u8, number as u8]);
    }
    let rest = groups.remainder();
    if rest.is_empty() && padding == 0 {
        return (beyond < 64).then_some(());
    }
    let mut number = 0;
    for &digit in rest {
        let place = u32::from(places[usize::from(digit)]);
        beyond |= place;
        number = number << 6 | place & 63;
    }
    if beyond >= 64 || rest.len() + padding != 4 || rest.len() < 2 {
        return None;
    }
    let lost = 2 * (4 - rest.len() as u32);
    if number & ((1 << lost) - 1) != 0 {
        return None;
    }
    let number = number >> lost;
    if rest.len() == 3 {
        out.push((number >> 8) as u8);
    }
    out.push(number as u8);
    Some(())
}

/// How many bytes a text of base64 stands for that is the only one for them.
pub fn size_of_base64(text: &[u8]) -> Option<usize> {
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if text.len() % 4 != 0 || digits.iter().any(|&digit| STANDARD_PLACES[usize::from(digit)] == NONE) {
        return None;
    }
    let lost = (1 << (2 * padding)) - 1;
    let last = STANDARD_PLACES[usize::from(*digits.last().unwrap_or(&b'A'))];
    (last & lost == 0).then_some(text.len() / 4 * 3 - padding)
}

/// Whether a text of base64 is a number of at most 128 bits in its least bytes, the highest first.
pub fn is_least_number(text: &[u8]) -> bool {
    let Some(size @ 1..=16) = size_of_base64(text) else { return false };
    let digit = |at: usize| u32::from(STANDARD_PLACES[usize::from(text[at])]);
    // The first byte and the first bit of the second one.
    let first = digit(0) << 3 | digit(1) >> 3;
    size == 1 || !matches!(first, 0 | 0x1ff)
}

pub fn of_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    decoded(text, &STANDARD_PLACES, &mut bytes)?;
    Some(bytes)
}

/// Base64 of either alphabet.
pub fn of_any_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    decoded(text, &ANY_PLACES, &mut bytes)?;
    Some(bytes)
}

fn print_digits(bytes: &[u8], alphabet: &[u8; 64], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4 + 2);
    out.push(b'"');
    let digit = |number: u32, at: u32| alphabet[(number >> (18 - 6 * at)) as usize & 63];
    let mut groups = bytes.chunks_exact(3);
    for group in &mut groups {
        let number = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        out.extend_from_slice(&[digit(number, 0), digit(number, 1), digit(number, 2), digit(number, 3)]);
    }
    match groups.remainder() {
        [first] => {
            let number = u32::from(*first) << 16;
            out.extend_from_slice(&[digit(number, 0), digit(number, 1), b'=', b'=']);
        }
        [first, second] => {
            let number = u32::from(*first) << 16 | u32::from(*second) << 8;
            out.extend_from_slice(&[digit(number, 0), digit(number, 1), digit(number, 2), b'=']);
        }
        _ => {}
    }
    out.push(b'"');
}

/// Print bytes as msgspec does: a string of base64.
pub fn print_base64(bytes: &[u8], out: &mut Vec<u8>) {
    print_digits(bytes, STANDARD, out);
}

pub fn print_url_safe(bytes: &[u8], out: &mut Vec<u8>) {
    print_digits(bytes, URL_SAFE, out);
}

pub fn print_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

/// Bytes of hexadecimal digits.
pub fn of_hex(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() % 2 != 0 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// The same, perhaps with `0x` before them.
pub fn of_prefixed_hex(text: &[u8]) -> Option<Vec<u8>> {
    of_hex(text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text))
}

/// Hexadecimal digits if it can be, and BINARY(n) has its length; else base64.
pub fn of_guessed(text: &[u8], length: Option<usize>) -> Option<Vec<u8>> {
    let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hex = text.len() % 2 == 0 && text.iter().all(lower);
    if is_hex && length.is_none_or(|length| text.len() == 2 * length) {
        of_hex(text)
    } else {
        of_any_base64(text)
    }
}

/// Whether each character of a text, which is UTF-8, is one byte (ISO 8859-1).
pub fn is_latin1(text: &[u8]) -> bool {
    text.iter().fold(0, |most, &byte| most.max(byte)) <= 0xc3
}

/// Bytes of text in which each character is one (ISO 8859-1).
pub fn of_latin1(text: Text<'_>) -> Option<Text<'_>> {
    if text.is_ascii() {
        return Some(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            0..=0x7f => byte,
            0xc2 | 0xc3 => byte << 6 | rest.next()? & 0x3f,
            _ => return None,
        });
    }
    Some(Text::Owned(bytes))
}

pub fn print_latin1(bytes: &[u8], how: LongEscapes, out: &mut Vec<u8>) {
    if bytes.is_ascii() {
        return json::print_text(bytes, how, out);
    }
    let mut text = Vec::with_capacity(2 * bytes.len());
    for &byte in bytes {
        text.extend_from_slice(char::from(byte).encode_utf8(&mut [0; 4]).as_bytes());
    }
    json::print_text(&text, how, out);
}

/// BINARY(n) with its zero bytes at the end.
pub fn padded(bytes: Text<'_>, length: Option<usize>) -> Text<'_> {
    match length {
        Some(length) if bytes.len() < length => {
            let mut longer = bytes.to_vec();
            longer.resize(length, 0);
            Text::Owned(longer)
        }
        _ => bytes,
    }
}

/// The bytes without the zero ones at their end.
pub fn stripped(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1)]
}

// ---------------------------------------------------------------- as Go's strconv.Quote prints

/// Bytes of text with Go's escapes.
pub fn of_quoted(text: Text<'_>) -> Option<Text<'_>> {
    if memchr::memchr3(b'\\', b'"', b'\n', &text).is_none() {
        return Some(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = memchr::memchr3(b'\\', b'"', b'\n', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let escape = rest[at..].strip_prefix(b"\\")?;
        rest = unescaped(escape, &mut bytes)?;
    }
    bytes.extend_from_slice(rest);
    Some(Text::Owned(bytes))
}

/// Append what an escape without its backslash means, and return what stands behind it.
fn unescaped<'a>(escape: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (&kind, rest) = escape.split_first()?;
    let byte = match kind {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => kind,
        b'x' => {
            bytes.push(number(rest.get(..2)?)? as u8);
            return Some(&rest[2..]);
        }
        b'u' | b'U' => {
            let (digits, rest) = rest.split_at_checked(if kind == b'u' { 4 } else { 8 })?;
            let character = char::from_u32(number(digits)?)?;
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(rest);
        }
        _ => return None,
    };
    bytes.push(byte);
    Some(rest)
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}

/// Print bytes with Go's escapes. None for a character of which it is not certain whether it is printable.
pub fn print_quoted(bytes: &[u8], how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
    if bytes.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(bytes);
        out.push(b'"');
        return Some(());
    }
    let mut text = Vec::with_capacity(4 * bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            quote(character, &mut text)?;
        }
        for &byte in chunk.invalid() {
            hex_escape(b'x', u32::from(byte), 2, &mut text);
        }
    }
    json::print_text(&text, how, out);
    Some(())
}

fn quote(character: char, text: &mut Vec<u8>) -> Option<()> {
    let code = u32::from(character);
    let named = match character {
        '\x07' => b'a',
        '\x08' => b'b',
        '\t' => b't',
        '\n' => b'n',
        '\x0b' => b'v',
        '\x0c' => b'f',
        '\r' => b'r',
        '"' | '\\' => code as u8,
        _ if code < 0x20 || code == 0x7f => {
            hex_escape(b'x', code, 2, text);
            return Some(());
        }
        _ if is_printable(code)? => {
            text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(());
        }
        _ => {
            hex_escape(b'u', code, 4, text);
            return Some(());
        }
    };
    text.extend_from_slice(&[b'\\', named]);
    Some(())
}

/// Whether a character is printable, where every edition of Unicode since 13 says the same.
fn is_printable(code: u32) -> Option<bool> {
    match code {
        0x20..=0x7e | 0xa1..=0xac | 0xae..=0x377 | 0x400..=0x52f | 0x1e00..=0x1eff => Some(true),
        0x37a..=0x37f | 0x384..=0x38a | 0x38c | 0x38e..=0x3a1 | 0x3a3..=0x3ff => Some(true),
        0x5d0..=0x5ea | 0x620..=0x64a | 0x2010..=0x2027 | 0x2030..=0x205e | 0x20a0..=0x20bf => Some(true),
        0x3041..=0x3096 | 0x30a1..=0x30fa | 0x4e00..=0x9ffc | 0xac00..=0xd7a3 => Some(true),
        0x3001..=0x301f | 0xff01..=0xff5e | 0x1f300..=0x1f64f => Some(true),
        0x80..=0xa0 | 0xad => Some(false),
        _ => None,
    }
}

fn hex_escape(letter: u8, code: u32, count: u32, text: &mut Vec<u8>) {
    text.extend_from_slice(&[b'\\', letter]);
    text.extend((0..count).rev().map(|at| HEX[(code >> (4 * at)) as usize & 15]));
}

// ---------------------------------------------------------------- text inside

/// Text whose UTF-8 bytes came as ISO 8859-1.
pub fn of_mistaken(text: Text<'_>) -> Option<Text<'_>> {
    let bytes = of_latin1(text)?;
    simdutf8::basic::from_utf8(&bytes).ok()?;
    Some(bytes)
}

/// Text whose UTF-8 bytes are base64.
pub fn text_of_base64<'a>(text: &[u8]) -> Option<Text<'a>> {
    let bytes = of_base64(text)?;
    simdutf8::basic::from_utf8(&bytes).ok()?;
    Some(Text::from(Cow::Owned(bytes)))
}
