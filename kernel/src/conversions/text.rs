//! Text that is borrowed from the message where it can be, and in the value itself where it is short.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// Bytes of text, mostly UTF-8.
#[derive(Clone)]
pub enum Text<'a> {
    Borrowed(&'a [u8]),
    Inline(Inline),
    Owned(Vec<u8>),
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(text) => text,
            Self::Inline(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl<'a> From<Cow<'a, [u8]>> for Text<'a> {
    fn from(text: Cow<'a, [u8]>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Borrowed(text),
            Cow::Owned(text) => Self::Owned(text),
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self).fmt(formatter)
    }
}

/// What a value holds itself, so that it stays small: every date and time, most of DECIMAL.
const INLINE: usize = 39;

/// A text in the value itself.
#[derive(Clone)]
pub struct Inline {
    length: u8,
    bytes: [u8; INLINE],
}

impl Deref for Inline {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl From<Short> for Text<'_> {
    fn from(text: Short) -> Self {
        match text.bytes.first_chunk() {
            Some(bytes) if text.length <= INLINE => {
                Self::Inline(Inline { length: text.length as u8, bytes: *bytes })
            }
            _ => Self::Owned(text.to_vec()),
        }
    }
}

/// The bytes of the longest short text: every DECIMAL, date and time fits.
const CAPACITY: usize = 110;

/// A buffer for a short text.
pub struct Short {
    length: usize,
    bytes: [u8; CAPACITY],
}

impl Short {
    pub fn new() -> Self {
        Self { length: 0, bytes: [0; CAPACITY] }
    }

    /// Append a text. None if it exceeds the capacity.
    pub fn push(&mut self, text: &[u8]) -> Option<()> {
        let end = self.length.checked_add(text.len())?;
        self.bytes.get_mut(self.length..end)?.copy_from_slice(text);
        self.length = end;
        Some(())
    }

    /// Append a byte `count` times. None if that exceeds the capacity.
    pub fn fill(&mut self, byte: u8, count: usize) -> Option<()> {
        let end = self.length.checked_add(count)?;
        self.bytes.get_mut(self.length..end)?.fill(byte);
        self.length = end;
        Some(())
    }

    /// Append a number with so many digits, which it does not exceed.
    pub fn digits(&mut self, mut number: u64, count: usize) -> Option<()> {
        let end = self.length.checked_add(count)?;
        for place in self.bytes.get_mut(self.length..end)?.iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.length = end;
        (number == 0).then_some(())
    }
}

impl Deref for Short {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
