//! Avro, read as JSON and written from it; `relay.templates.avro_ops` says how. None means that a value is not
//! for this.

use crate::conversions::{of_base64, print_base64};
use crate::json::{self, LongEscapes, print_float, print_text};
use crate::ops::Bytes;
use crate::scan::behind;
use crate::token::{Kind, Token};

/// How a value becomes JSON, and the other way round.
pub enum AvroOp {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Text,
    Binary,
    Fixed(usize),
    Symbols(Vec<Bytes>),
    Union(Vec<AvroOp>),
    /// Fields with what stands before them: a brace or a comma, and the name.
    Record(Vec<(Bytes, AvroOp)>),
    Items(Box<AvroOp>),
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
            AvroOp::Record(fields) => {
                for (name, field) in fields {
                    out.extend_from_slice(name);
                    self.print(field, out)?;
                }
                out.extend_from_slice(if fields.is_empty() { b"{}" } else { b"}" });
            }
            AvroOp::Items(item) => self.items(item, out)?,
        }
        Some(())
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

struct Writer<'a> {
    rest: &'a [u8],
}

impl<'a> Writer<'a> {
    fn write(&mut self, op: &AvroOp, out: &mut Vec<u8>) -> Option<()> {
        match op {
            AvroOp::Null => self.constant(b"null")?,
            AvroOp::Boolean => out.push((self.token(Kind::Boolean)?.text == b"true").into()),
            AvroOp::Int => write_integer(i32::try_from(self.number()?).ok()?.into(), out),
            AvroOp::Long => write_integer(self.number()?, out),
            AvroOp::Float => out.extend_from_slice(&(self.real()? as f32).to_le_bytes()),
            AvroOp::Double => out.extend_from_slice(&self.real()?.to_le_bytes()),
            AvroOp::Text => write_sized(&json::meaning(&self.token(Kind::Text)?)?, out),
            AvroOp::Binary => {
                write_sized(&of_base64(&json::meaning(&self.token(Kind::Text)?)?)?, out);
            }
            AvroOp::Union(branches) => {
                let is_null = self.rest.starts_with(b"null");
                let fits = |branch: &AvroOp| matches!(branch, AvroOp::Null) == is_null;
                let number = branches.iter().position(fits)?;
                let [one, other] = &branches[..] else { return None };
                (fits(one) != fits(other)).then_some(())?;
                write_integer(number as i64, out);
                self.write(&branches[number], out)?;
            }
            AvroOp::Record(fields) => {
                for (name, field) in fields {
                    self.constant(name)?;
                    self.write(field, out)?;
                }
                self.constant(if fields.is_empty() { b"{}" } else { b"}" })?;
            }
            AvroOp::Items(item) => self.items(item, out)?,
            AvroOp::Fixed(_) | AvroOp::Symbols(_) => return None,
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

    fn token(&mut self, kind: Kind) -> Option<Token<'a>> {
        let (token, rest) = json::token(self.rest)?;
        self.rest = rest;
        (token.kind == kind).then_some(token)
    }

    fn number(&mut self) -> Option<i64> {
        let text = self.token(Kind::Integer)?.text;
        json::short_integer(text).or_else(|| i64::try_from(json::integer(text)?).ok())
    }

    fn real(&mut self) -> Option<f64> {
        let (token, rest) = json::token(self.rest)?;
        self.rest = rest;
        if matches!(token.kind, Kind::Integer | Kind::Number) { json::float(token.text) } else { None }
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
