//! Avro, read as JSON and written from it; `relay.templates.avro_ops` says how. None means that a value is not
//! for this.

use crate::conversions::{of_base64, print_base64};
use crate::json::{self, LongEscapes, print_float, print_text};
use crate::ops::Bytes;
use crate::scan::behind;
use crate::token::{Escapes, Kind, Kinds, Place, Places, Token, Within};

/// How a value becomes JSON, and the other way round.
#[derive(PartialEq)]
pub enum AvroOp {
    Null,
    Boolean,
    Int,
    Long,
    Unsigned,
    /// Not of Avro: a number of eight bytes, the highest first.
    Uint64,
    Float,
    Double,
    Text,
    Binary,
    Fixed(usize),
    Symbols(Vec<Bytes>),
    Union(Vec<AvroOp>),
    /// A value of the branch of a union with this index.
    Branch(usize, Box<AvroOp>),
    /// Null, which is a zero byte, or a value after these bytes.
    Nullable(Bytes, Box<AvroOp>),
    /// Fields with what stands before them: a brace or a comma, and the name.
    Record(Vec<(Bytes, AvroOp)>),
    Items(Box<AvroOp>),
    Map(Box<Entries>),
}

/// The entries of a map; all of them, in any order.
#[derive(PartialEq)]
pub struct Entries {
    each: Vec<(Bytes, AvroOp)>,
    /// Their indexes, by name.
    sorted: Vec<usize>,
}

impl Entries {
    /// None if two have the same name.
    pub fn new(each: Vec<(Bytes, AvroOp)>) -> Option<Self> {
        let mut sorted: Vec<usize> = (0..each.len()).collect();
        sorted.sort_unstable_by_key(|&index| &each[index].0);
        let are_different = sorted.windows(2).all(|pair| each[pair[0]].0 != each[pair[1]].0);
        are_different.then_some(Self { each, sorted })
    }

    /// The index of a name, which is probably `likely`.
    fn find(&self, name: &[u8], likely: usize) -> Option<usize> {
        if self.each.get(likely).is_some_and(|entry| *entry.0 == *name) {
            return Some(likely);
        }
        let found = self.sorted.binary_search_by(|&index| (*self.each[index].0).cmp(name));
        self.sorted.get(found.ok()?).copied()
    }
}

impl AvroOp {
    /// Append the kinds of each scalar value's token, in order. None if `scan` does not support the op.
    pub fn tokens(&self, found: &mut Vec<Kinds>) -> Option<()> {
        match self {
            Self::Record(fields) => fields.iter().try_for_each(|(_, field)| field.tokens(found)),
            Self::Branch(_, op) => op.tokens(found),
            Self::Map(entries) => entries.each.iter().try_for_each(|(_, op)| op.scalar_token(found)),
            _ => self.scalar_token(found),
        }
    }

    fn scalar_token(&self, found: &mut Vec<Kinds>) -> Option<()> {
        let mut kinds = Kinds::default();
        self.add_kinds(&mut kinds)?;
        found.push(kinds);
        Some(())
    }

    fn add_kinds(&self, kinds: &mut Kinds) -> Option<()> {
        kinds.add(match self {
            Self::Null => Kind::Null,
            Self::Boolean => Kind::Boolean,
            Self::Int | Self::Long | Self::Unsigned | Self::Uint64 => Kind::Integer,
            Self::Float | Self::Double => Kind::Number,
            Self::Text | Self::Binary | Self::Fixed(_) => Kind::Text,
            Self::Union(branches) => return branches.iter().try_for_each(|branch| branch.add_kinds(kinds)),
            Self::Nullable(_, op) => {
                kinds.add(Kind::Null);
                return op.add_kinds(kinds);
            }
            Self::Symbols(_) | Self::Branch(..) | Self::Record(_) | Self::Items(_) | Self::Map(_) => {
                return None;
            }
        });
        Some(())
    }
}

/// Read an Avro value: append each scalar value's JSON token to `printed`, and its position to `places`. Return
/// the bytes behind it.
pub fn scan<'a>(op: &AvroOp, data: &'a [u8], printed: &mut Vec<u8>, places: &mut Places) -> Option<&'a [u8]> {
    let mut reader = Reader { rest: data };
    reader.scan(op, printed, places)?;
    Some(reader.rest)
}

/// A kind of value in a marker.
#[derive(Clone, Copy)]
pub enum Flat {
    Long,
    Text,
}

/// Skip these values.
pub fn skip<'a>(values: &[Flat], data: &'a [u8]) -> Option<&'a [u8]> {
    let mut reader = Reader { rest: data };
    for value in values {
        match value {
            Flat::Long => {
                reader.integer()?;
            }
            Flat::Text => {
                reader.sized()?;
            }
        }
    }
    Some(reader.rest)
}

/// Append the JSON of the value that some bytes are.
pub fn print(op: &AvroOp, data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut reader = Reader { rest: data };
    reader.print(op, out)?;
    reader.rest.is_empty().then_some(())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn scan(&mut self, op: &AvroOp, printed: &mut Vec<u8>, places: &mut Places) -> Option<()> {
        match op {
            AvroOp::Record(fields) => {
                fields.iter().try_for_each(|(_, field)| self.scan(field, printed, places))
            }
            AvroOp::Branch(number, op) => {
                (self.size()? == *number).then_some(())?;
                self.scan(op, printed, places)
            }
            AvroOp::Map(entries) => self.entries(entries, printed, places),
            _ => {
                places.push(Some(self.place(op, printed)?));
                Some(())
            }
        }
    }

    /// Append a scalar value as JSON; return its position.
    #[inline]
    fn place(&mut self, op: &AvroOp, printed: &mut Vec<u8>) -> Option<Place> {
        let start = u32::try_from(printed.len()).ok()?;
        let (kind, escapes) = self.token(op, printed)?;
        let end = u32::try_from(printed.len()).ok()?;
        Some(Place { start, end, kind, escapes, within: Within::Printed })
    }

    fn entries(&mut self, entries: &Entries, printed: &mut Vec<u8>, places: &mut Places) -> Option<()> {
        let (first, mut missing, mut likely) = (places.len(), entries.each.len(), 0);
        places.resize(first + missing, None);
        loop {
            let count = self.size()?;
            if count == 0 {
                return (missing == 0).then_some(());
            }
            missing = missing.checked_sub(count)?;
            for _ in 0..count {
                let index = entries.find(self.sized()?, likely)?;
                let place = self.place(&entries.each[index].1, printed)?;
                if places[first + index].replace(place).is_some() {
                    return None;
                }
                likely = index + 1;
            }
        }
    }

    /// Append a scalar value as JSON; return the token's kind and escapes.
    fn token(&mut self, op: &AvroOp, out: &mut Vec<u8>) -> Option<(Kind, Escapes)> {
        let kind = match op {
            AvroOp::Union(branches) => {
                let branch = self.size()?;
                return self.token(branches.get(branch)?, out);
            }
            AvroOp::Nullable(before, op) if self.is_present(before)? => return self.token(op, out),
            AvroOp::Nullable(..) => {
                out.extend_from_slice(b"null");
                return Some((Kind::Null, Escapes::None));
            }
            AvroOp::Text => {
                let text = simdutf8::basic::from_utf8(self.sized()?).ok()?;
                return Some((Kind::Text, json::print_token(text.as_bytes(), out)));
            }
            AvroOp::Null => Kind::Null,
            AvroOp::Boolean => Kind::Boolean,
            AvroOp::Int | AvroOp::Long | AvroOp::Unsigned | AvroOp::Uint64 => Kind::Integer,
            AvroOp::Float | AvroOp::Double => Kind::Number,
            AvroOp::Binary | AvroOp::Fixed(_) => Kind::Text,
            AvroOp::Symbols(_)
            | AvroOp::Branch(..)
            | AvroOp::Record(_)
            | AvroOp::Items(_)
            | AvroOp::Map(_) => return None,
        };
        self.print(op, out)?;
        Some((kind, Escapes::None))
    }

    fn print(&mut self, op: &AvroOp, out: &mut Vec<u8>) -> Option<()> {
        match op {
            AvroOp::Null => out.extend_from_slice(b"null"),
            AvroOp::Boolean => out.extend_from_slice(match self.array()? {
                [0] => b"false",
                [1] => b"true",
                _ => return None,
            }),
            AvroOp::Int => print_integer(i32::try_from(self.integer()?).ok()?.into(), out),
            AvroOp::Long => print_integer(self.integer()?, out),
            AvroOp::Unsigned => print_unsigned(self.integer()? as u64, out),
            AvroOp::Uint64 => print_unsigned(u64::from_be_bytes(self.array()?), out),
            AvroOp::Float => print_finite(f32::from_le_bytes(self.array()?).into(), out)?,
            AvroOp::Double => print_finite(f64::from_le_bytes(self.array()?), out)?,
            AvroOp::Text => {
                let text = simdutf8::basic::from_utf8(self.sized()?).ok()?;
                print_text(text.as_bytes(), LongEscapes(false), out);
            }
            AvroOp::Binary => print_base64(self.sized()?, out),
            AvroOp::Fixed(size) => print_base64(self.bytes(*size)?, out),
            AvroOp::Symbols(texts) => out.extend_from_slice(texts.get(self.size()?)?),
            AvroOp::Union(branches) => {
                let branch = self.size()?;
                self.print(branches.get(branch)?, out)?;
            }
            AvroOp::Branch(number, op) => {
                (self.size()? == *number).then_some(())?;
                self.print(op, out)?;
            }
            AvroOp::Nullable(before, op) => {
                if self.is_present(before)? {
                    self.print(op, out)?;
                } else {
                    out.extend_from_slice(b"null");
                }
            }
            AvroOp::Record(fields) => {
                for (name, field) in fields {
                    out.extend_from_slice(name);
                    self.print(field, out)?;
                }
                out.extend_from_slice(if fields.is_empty() { b"{}" } else { b"}" });
            }
            AvroOp::Items(item) => self.items(item, out)?,
            AvroOp::Map(_) => return None,
        }
        Some(())
    }

    /// Whether a value follows after these bytes, instead of null; skip the bytes of either.
    fn is_present(&mut self, before: &[u8]) -> Option<bool> {
        if let Some(rest) = behind(self.rest, before) {
            self.rest = rest;
            return Some(true);
        }
        self.rest = behind(self.rest, NULL)?;
        Some(false)
    }

    fn items(&mut self, item: &AvroOp, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'[');
        let start = out.len();
        loop {
            let count = self.size()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                if out.len() > start {
                    out.push(b',');
                }
                let before = self.rest.len();
                self.print(item, out)?;
                // Few bytes become few items.
                (self.rest.len() < before).then_some(())?;
            }
        }
        out.push(b']');
        Some(())
    }

    fn bytes(&mut self, size: usize) -> Option<&'a [u8]> {
        let (found, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(found)
    }

    fn array<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        let (found, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*found)
    }

    /// Bytes behind their number.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = self.size()?;
        self.bytes(size)
    }

    /// An integer that is not negative.
    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.integer()?).ok()
    }

    /// An integer of at most 64 bits.
    #[inline]
    fn integer(&mut self) -> Option<i64> {
        let [first] = self.array()?;
        if first < MORE {
            return Some(signed(first.into()));
        }
        let mut number = u64::from(first ^ MORE);
        for shift in (7..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & !MORE);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < MORE {
                return Some(signed(number));
            }
        }
        None
    }
}

/// The first branch of a union.
const NULL: &[u8] = &[0];

/// Set in each byte of an integer that is followed by more.
const MORE: u8 = 0x80;

/// Numbers below 0 are the odd ones.
#[inline]
fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn print_integer(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn print_unsigned(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn print_finite(value: f64, out: &mut Vec<u8>) -> Option<()> {
    value.is_finite().then(|| print_float(value, out))
}

// ---------------------------------------------------------------- written

/// Append the Avro of the value that a JSON text is.
pub fn write(op: &AvroOp, json: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut writer = Writer { rest: json };
    writer.write(op, out)?;
    writer.rest.is_empty().then_some(())
}

/// Append a token's value as Avro.
pub fn write_token(op: &AvroOp, token: &Token<'_>, out: &mut Vec<u8>) -> Option<()> {
    let of_kind = |kind: Kind| (token.kind == kind).then_some(token.text);
    match op {
        AvroOp::Null => {
            of_kind(Kind::Null)?;
        }
        AvroOp::Boolean => out.push((of_kind(Kind::Boolean)? == b"true").into()),
        AvroOp::Int => write_integer(i32::try_from(number(of_kind(Kind::Integer)?)?).ok()?.into(), out),
        AvroOp::Long => write_integer(number(of_kind(Kind::Integer)?)?, out),
        AvroOp::Unsigned => write_integer(unsigned(of_kind(Kind::Integer)?)? as i64, out),
        AvroOp::Uint64 => out.extend_from_slice(&unsigned(of_kind(Kind::Integer)?)?.to_be_bytes()),
        AvroOp::Float => out.extend_from_slice(&(real(token)? as f32).to_le_bytes()),
        AvroOp::Double => out.extend_from_slice(&real(token)?.to_le_bytes()),
        AvroOp::Text => {
            of_kind(Kind::Text)?;
            write_sized(&json::meaning(token)?, out);
        }
        AvroOp::Binary => {
            of_kind(Kind::Text)?;
            write_sized(&of_base64(&json::meaning(token)?)?, out);
        }
        AvroOp::Union(branches) => {
            let number = branch_of(branches, token.kind == Kind::Null)?;
            write_integer(number as i64, out);
            write_token(&branches[number], token, out)?;
        }
        AvroOp::Branch(number, op) => {
            write_integer(*number as i64, out);
            write_token(op, token, out)?;
        }
        AvroOp::Nullable(..) if token.kind == Kind::Null => out.extend_from_slice(NULL),
        AvroOp::Nullable(before, op) => {
            out.extend_from_slice(before);
            write_token(op, token, out)?;
        }
        AvroOp::Fixed(_) | AvroOp::Symbols(_) | AvroOp::Record(_) | AvroOp::Items(_) | AvroOp::Map(_) => {
            return None;
        }
    }
    Some(())
}

/// The branch that a value has in a union of null and one type.
fn branch_of(branches: &[AvroOp], is_null: bool) -> Option<usize> {
    let fits = |branch: &AvroOp| matches!(branch, AvroOp::Null) == is_null;
    let [one, other] = branches else { return None };
    (fits(one) != fits(other)).then_some(usize::from(fits(other)))
}

fn number(text: &[u8]) -> Option<i64> {
    json::short_integer(text).or_else(|| i64::try_from(json::integer(text)?).ok())
}

fn unsigned(text: &[u8]) -> Option<u64> {
    u64::try_from(json::integer(text)?).ok()
}

fn real(token: &Token<'_>) -> Option<f64> {
    if matches!(token.kind, Kind::Integer | Kind::Number) { json::float(token.text) } else { None }
}

struct Writer<'a> {
    rest: &'a [u8],
}

impl Writer<'_> {
    fn write(&mut self, op: &AvroOp, out: &mut Vec<u8>) -> Option<()> {
        match op {
            AvroOp::Union(branches) => {
                let number = branch_of(branches, self.rest.starts_with(b"null"))?;
                write_integer(number as i64, out);
                self.write(&branches[number], out)?;
            }
            AvroOp::Branch(number, op) => {
                write_integer(*number as i64, out);
                self.write(op, out)?;
            }
            AvroOp::Nullable(before, op) => {
                if self.constant(b"null").is_some() {
                    out.extend_from_slice(NULL);
                } else {
                    out.extend_from_slice(before);
                    self.write(op, out)?;
                }
            }
            AvroOp::Record(fields) => {
                for (name, field) in fields {
                    self.constant(name)?;
                    self.write(field, out)?;
                }
                self.constant(if fields.is_empty() { b"{}" } else { b"}" })?;
            }
            AvroOp::Items(item) => self.items(item, out)?,
            _ => {
                let (token, rest) = json::token(self.rest)?;
                self.rest = rest;
                write_token(op, &token, out)?;
            }
        }
        Some(())
    }

    fn items(&mut self, item: &AvroOp, out: &mut Vec<u8>) -> Option<()> {
        self.constant(b"[")?;
        let (mut items, mut count) = (Vec::new(), 0);
        while self.constant(b"]").is_none() {
            if count > 0 {
                self.constant(b",")?;
            }
            self.write(item, &mut items)?;
            count += 1;
        }
        if count > 0 {
            write_integer(count, out);
            out.extend_from_slice(&items);
        }
        out.push(0);
        Some(())
    }

    fn constant(&mut self, text: &[u8]) -> Option<()> {
        self.rest = behind(self.rest, text)?;
        Some(())
    }
}

fn write_sized(data: &[u8], out: &mut Vec<u8>) {
    write_integer(data.len() as i64, out);
    out.extend_from_slice(data);
}

fn write_integer(value: i64, out: &mut Vec<u8>) {
    let mut number = (value << 1 ^ value >> 63) as u64;
    while number >= MORE.into() {
        out.push(number as u8 | MORE);
        number >>= 7;
    }
    out.push(number as u8);
}
