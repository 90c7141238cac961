//! Conversions of single values, by the names of `relay.templates.conversions`.
//!
//! A read makes a canonical value of a parsed JSON token, a write prints it. What does not fit, or has no
//! meaning here, is None; the functions in Python raise there.

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
    IntegerText,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    IntegerText,
}

impl Read {
    /// The read of a name; None if there is none with these parameters.
    pub fn new(name: &str, parameters: &[Parameter]) -> Option<Self> {
        Some(match (name, parameters) {
            ("integer-text", []) => Self::IntegerText,
            _ => return None,
        })
    }

    pub fn read<'a>(&self, value: Value<'a>) -> Option<Value<'a>> {
        match (self, value) {
            (Self::IntegerText, Value::Text(text)) => Some(Value::Integer(json::integer(&text)?)),
            (Self::IntegerText, _) => None,
        }
    }
}

impl Write {
    /// The write of a name; None if there is none with these parameters.
    pub fn new(name: &str, parameters: &[Parameter]) -> Option<Self> {
        Some(match (name, parameters) {
            ("integer-text", []) => Self::IntegerText,
            _ => return None,
        })
    }

    pub fn print(&self, value: Value<'_>, _how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        match (self, value) {
            (Self::IntegerText, Value::Integer(integer)) => {
                out.push(b'"');
                json::print_integer(integer, out)?;
                out.push(b'"');
                Some(())
            }
            (Self::IntegerText, _) => None,
        }
    }
}

/// What a token means; it is not null.
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
