//! Conversions of single values, by the names of `relay.templates.conversions`.
//!
//! A read makes a canonical value of a JSON token, a write prints it. A value that they do not take is None;
//! the functions in Python raise there. They may take fewer values than those, never more, and make the same
//! of them.

use std::borrow::Cow;

use crate::json::{self, LongEscapes};
use crate::token::{Kind, Token};

/// A value: of a token, or canonical.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Boolean(bool),
    Integer(i128),
    Float(f64),
    /// In UTF-8.
    Text(Cow<'a, [u8]>),
}

/// A parameter of a conversion.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    None,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Texts(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    Int,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    Digits,
}

impl Read {
    /// The read of a name; None if there is none with these parameters.
    pub fn new(name: &str, parameters: &[Parameter]) -> Option<Self> {
        Some(match (name, parameters) {
            ("int", []) => Self::Int,
            _ => return None,
        })
    }

    /// What a token that is not null stands for.
    pub fn read<'a>(&self, token: &Token<'a>) -> Option<Value<'a>> {
        match self {
            Self::Int => Some(Value::Integer(json::integer(&text(token)?)?)),
        }
    }
}

impl Write {
    /// The write of a name; None if there is none with these parameters.
    pub fn new(name: &str, parameters: &[Parameter]) -> Option<Self> {
        Some(match (name, parameters) {
            ("digits", []) => Self::Digits,
            _ => return None,
        })
    }

    pub fn print(&self, value: Value<'_>, _how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        match (self, value) {
            (Self::Digits, Value::Integer(integer)) => {
                out.push(b'"');
                json::print_integer(integer, out)?;
                out.push(b'"');
                Some(())
            }
            (Self::Digits, _) => None,
        }
    }
}

/// What a string means, in UTF-8; None for another token.
fn text<'a>(token: &Token<'a>) -> Option<Cow<'a, [u8]>> {
    if token.kind == Kind::Text { json::meaning(token) } else { None }
}

/// What msgspec makes of a token that is not null.
pub fn parsed<'a>(token: &Token<'a>) -> Option<Value<'a>> {
    Some(match token.kind {
        Kind::Integer => Value::Integer(json::integer(token.text)?),
        Kind::Number => Value::Float(json::float(token.text)?),
        Kind::Text => Value::Text(json::meaning(token)?),
        Kind::Boolean => Value::Boolean(token.text == b"true"),
        Kind::Null => return None,
    })
}

/// Print a value as msgspec does.
pub fn print(value: &Value<'_>, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(integer) => json::print_integer(*integer, out)?,
        Value::Float(float) => json::print_float(*float, out),
        Value::Text(text) => json::print_text(text, how, out),
    }
    Some(())
}
