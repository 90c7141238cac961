//! Values that the rules of a route replace: hashed, masked or cut off.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::text::Text;
use super::{Read, Value, parsed};
use crate::token::Token;

/// Hexadecimal digits of an HMAC-SHA-256.
pub const MOST_HASH_DIGITS: usize = 64;

/// Reads a value and replaces it; without a read, replaces what a token means.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplacingReader {
    pub read: Option<Read>,
    pub by: Replacement,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Replacement {
    Hash(HashReader),
    /// Stars in place of all characters except so many first and last ones.
    Mask {
        first: usize,
        last: usize,
    },
    /// The first characters, or bytes.
    Truncate(usize),
}

/// The first hexadecimal digits of the HMAC-SHA-256 with a key, which nothing shows.
#[derive(Clone)]
pub struct HashReader {
    key: Box<[u8]>,
    digits: usize,
    /// The state after the key, with which every value begins.
    keyed: Hmac<Sha256>,
}

impl PartialEq for HashReader {
    fn eq(&self, other: &Self) -> bool {
        self.digits == other.digits && self.key == other.key
    }
}

impl fmt::Debug for HashReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HashReader").field("digits", &self.digits).finish_non_exhaustive()
    }
}

impl HashReader {
    pub fn new(key: &[u8], digits: usize) -> Option<Self> {
        Some(Self { key: key.into(), digits, keyed: Hmac::new_from_slice(key).ok()? })
    }

    fn hash(&self, data: &[u8]) -> Vec<u8> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut keyed = self.keyed.clone();
        keyed.update(data);
        let bytes = keyed.finalize().into_bytes();
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.take(self.digits).map(|digit| DIGITS[usize::from(digit)]).collect()
    }
}

impl ReplacingReader {
    /// What replaces the value of a token that is not null.
    pub fn read<'a>(&'a self, token: &Token<'a>) -> Option<Value<'a>> {
        let value = match &self.read {
            Some(read) => read.read(token)?,
            None => parsed(token)?,
        };
        match &self.by {
            Replacement::Hash(hash) => Some(Value::Text(Text::Owned(match &value {
                Value::Bytes(bytes) => hash.hash(bytes),
                other => hash.hash(&text_of(other)?),
            }))),
            Replacement::Mask { first, last } => {
                Some(Value::Text(Text::Owned(masked(&text_of(&value)?, *first, *last))))
            }
            Replacement::Truncate(length) => match value {
                Value::Text(text) => {
                    let end = characters_end(&text, *length);
                    Some(Value::Text(cut(text, end)))
                }
                Value::Bytes(bytes) => Some(Value::Bytes(cut(bytes, *length))),
                _ => None,
            },
        }
    }
}

/// A value's text; None for those whose text depends on a language.
fn text_of<'a>(value: &Value<'a>) -> Option<Text<'a>> {
    match value {
        Value::Text(text) | Value::Decimal(text) => Some(text.clone()),
        Value::Integer(number) => Some(Text::Owned(itoa::Buffer::new().format(*number).into())),
        Value::Boolean(_) | Value::Float(_) | Value::Bytes(_) => None,
    }
}

fn masked(text: &[u8], first: usize, last: usize) -> Vec<u8> {
    let length = characters(text);
    let Some(covered) = length.checked_sub(first.saturating_add(last)).filter(|&covered| covered > 0) else {
        return vec![b'*'; length];
    };
    let (start, end) = (characters_end(text, first), characters_end(text, first + covered));
    let mut masked = text[..start].to_vec();
    masked.resize(start + covered, b'*');
    masked.extend_from_slice(&text[end..]);
    masked
}

/// Whether a byte of UTF-8 begins a character.
fn begins(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| begins(byte)).count()
}

/// Where the first `count` characters of UTF-8 end.
fn characters_end(text: &[u8], count: usize) -> usize {
    let mut starts = text.iter().enumerate().filter(|&(_, &byte)| begins(byte));
    starts.nth(count).map_or(text.len(), |(at, _)| at)
}

fn cut(text: Text<'_>, length: usize) -> Text<'_> {
    match text {
        Text::Borrowed(text) => Text::Borrowed(&text[..length.min(text.len())]),
        Text::Owned(mut text) => {
            text.truncate(length);
            Text::Owned(text)
        }
        Text::Inline(text) => Text::Owned(text[..length.min(text.len())].to_vec()),
    }
}
