//! JSON tokens of a message, as they stand there.

/// What a token is; each kind is a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Integer = 1,
    Number = 2,
    Text = 4,
    Null = 8,
    Boolean = 16,
}

impl Kind {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::Text,
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kinds(u8);

impl Kinds {
    pub fn add(&mut self, kind: Kind) {
        self.0 |= kind as u8;
    }

    pub fn has(self, kind: Kind) -> bool {
        self.0 & kind as u8 != 0
    }

    /// Whether there are no others than these.
    pub fn are_among(self, kinds: &[Kind]) -> bool {
        kinds.iter().fold(self.0, |left, kind| left & !(*kind as u8)) == 0
    }
}

/// How the escapes of a string are written; a string is what the last of its escapes is in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Escapes {
    /// There are none.
    None,
    /// As msgspec and TiCDC write them.
    Canonical,
    /// As msgspec writes them: `\b` or `\f` is among them.
    Short,
    /// In another way, such as `\/` or `\u0041`.
    Other,
}

/// A token: its text, with the quotes of a string.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub text: &'a [u8],
    pub kind: Kind,
    pub escapes: Escapes,
}

impl<'a> Token<'a> {
    /// A string without its quotes.
    pub fn inside(&self) -> &'a [u8] {
        self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or_default()
    }
}

/// Where a token stands in a record, and what it is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub start: u32,
    pub end: u32,
    pub kind: Kind,
    pub escapes: Escapes,
    pub within: Within,
}

/// The text that contains a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    Key,
    Value,
    /// JSON printed from Avro values.
    Printed,
}

impl Place {
    /// The token, in the part of the record that it stands in.
    pub fn token<'a>(&self, part: &'a [u8]) -> Token<'a> {
        let text = part.get(self.start as usize..self.end as usize).unwrap_or_default();
        Token { text, kind: self.kind, escapes: self.escapes }
    }
}

/// What has a slot; None where a member is missing.
pub type Places = Vec<Option<Place>>;
