//! Conversions of single values, by the names of `reference_engine.conversions`.
//!
//! A read makes a canonical value of a JSON token, a write prints it. What does not fit, or has no meaning
//! here, is None: what the functions in Python do not take, what loses something, and what is too unusual to
//! be worth its lines.

mod binary;
mod decimals;
mod documents;
mod floats;
mod integers;
mod members;
mod replaced;
mod temporal;
mod text;
mod unchanged;

use crate::json::{self, LongEscapes};
use crate::token::{Escapes, Kind, Token};
use binary::padded;
pub use binary::{of_base64, print_base64};
use members::{LabelReader, LabelWriter};
use replaced::{HashReader, Replacement, ReplacingReader};
pub use temporal::{clock_seconds, local_datetime_micros};
use text::Text;

/// A value: of a token, or canonical.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Boolean(bool),
    Integer(i128),
    Float(f64),
    /// Digits without an exponent.
    Decimal(Text<'a>),
    /// In UTF-8.
    Text(Text<'a>),
    Bytes(Text<'a>),
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

/// Bytes of BINARY(n), None of other types.
type Length = Option<usize>;
/// Digits behind the point of a second, or of a decimal; None if nobody knows.
type Digits = Option<usize>;

#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    IntegerText,
    MemberNumber(i128),
    YearText(Box<[u8]>),
    DecimalText(usize),
    DoubleText,
    FloatText,
    Int64,
    Unsigned64,
    Whole,
    Signed,
    /// The greatest number.
    Natural(i128),
    Seconds(i128),
    PlainDecimal,
    Year1900,
    DoubleNumber,
    FloatNumber,
    Float,
    DecimalNumber {
        length: Option<usize>,
        scale: Digits,
        java: bool,
        text: bool,
    },
    /// Scale, and maximum number of bytes.
    DecimalBytes(usize, usize),
    UnscaledInteger,
    Bits,
    BitBytes,
    Latin1(Length),
    Utf8(Length),
    Hex(Length),
    PlainHex(Length),
    Base64(Length),
    AnyBase64(Length),
    GuessedBinary(Length),
    GoQuoted,
    TextOfBase64,
    MistakenText,
    JsonOrNull,
    Vector,
    Labels(LabelReader),
    Date,
    Datetime,
    Time,
    IsoDatetime {
        digits: usize,
        iso: bool,
    },
    IsoTimestamp(Digits),
    Zoned(Digits),
    IsoDate,
    IsoTime(Digits),
    IsoWall(Digits),
    DateDays,
    DatetimeCount(i128, Digits),
    DatetimeNanos(Digits),
    TimeCount(i128, i128, Digits),
    Clock(Digits),
    EventTime {
        divisor: i128,
        offset_seconds: i128,
    },
    Replaced(Box<ReplacingReader>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    Digits,
    MemberDigits(i128),
    Year(Box<[u8]>),
    Int64,
    Int32,
    Long,
    Signed64,
    Natural(i128),
    Boolean,
    Decimal,
    DecimalNumber,
    JavaDecimal,
    DecimalDouble,
    RoundedDouble,
    DecimalFloat,
    RoundedFloat,
    GoText,
    JavaDouble,
    JavaFloat,
    JavaNumber,
    JavaNumberOfFloat,
    GoNumber,
    GoNumberOfFloat,
    Finite,
    FiniteFloat,
    Bits(usize),
    /// Length in bits.
    BitBytes(u32),
    BigEndian,
    Unscaled(usize),
    /// Precision and scale.
    DecimalBytes(usize, usize),
    Latin1,
    Latin1Stripped,
    Hex(Length),
    Base64(Length),
    Base64Stripped,
    UrlSafe(Length),
    GoQuoted,
    TextBase64,
    Text,
    HtmlText,
    ZonedText(Box<[u8]>),
    Vector,
    Document,
    SomeDocument,
    NullDocument,
    CompactJson,
    RowKey,
    Label,
    Labels(LabelWriter),
    LabelList(LabelWriter),
    NoDate(Box<[u8]>, usize, usize),
    Calendar,
    Iso {
        calendar: bool,
        end: &'static [u8],
    },
    TimestampIso(Digits, bool),
    DateIso,
    DatetimeIso,
    TimeIso,
    DateDays {
        moves: bool,
    },
    DatetimeMillis(usize),
    DatetimeMicros,
    DatetimeUnits(i128, i128),
    TimeMicros,
    TimeMillis,
    TimeNanos,
}

// ---------------------------------------------------------------- names

fn small(parameter: &Parameter, most: usize) -> Option<usize> {
    match parameter {
        Parameter::Integer(number) => usize::try_from(*number).ok().filter(|&number| number <= most),
        _ => None,
    }
}

fn known(parameter: &Parameter, most: usize) -> Option<Option<usize>> {
    match parameter {
        Parameter::None => Some(None),
        parameter => small(parameter, most).map(Some),
    }
}

const MOST_DIGITS: usize = 6;
const MOST_SCALE: usize = 38;
const MOST_BYTES: usize = 1 << 16;

/// The only parameter, or none: a length.
fn length(parameters: &[Parameter]) -> Option<Length> {
    match parameters {
        [] => Some(None),
        [length] => known(length, MOST_BYTES),
        _ => None,
    }
}

fn digits(parameters: &[Parameter]) -> Option<Digits> {
    let [digits] = parameters else { return None };
    known(digits, MOST_DIGITS)
}

fn unit(parameter: &Parameter) -> Option<i128> {
    match parameter {
        Parameter::Integer(number @ 1..=1_000_000_000) => Some(i128::from(*number)),
        _ => None,
    }
}

fn word(parameters: &[Parameter]) -> Option<Box<[u8]>> {
    let [Parameter::Text(word)] = parameters else { return None };
    Some(word.as_bytes().into())
}

/// The greatest number of a member; without one, or if it is None, that of 64 bits.
fn most(parameters: &[Parameter]) -> Option<i128> {
    match parameters {
        [] | [Parameter::None] => Some(i128::from(u64::MAX)),
        [Parameter::Integer(most)] => Some(i128::from(*most)),
        _ => None,
    }
}

impl Read {
    /// The read of a name; None if there is none with these parameters.
    pub fn new(name: &str, parameters: &[Parameter]) -> Option<Self> {
        let simple = Self::simple(name);
        if simple.is_some() {
            return simple.filter(|_| parameters.is_empty());
        }
        Some(match name {
            "year-text" => Self::YearText(word(parameters)?),
            "member-number" => Self::MemberNumber(most(parameters)?),
            "natural" => Self::Natural(most(parameters)?),
            "scaled-decimal" | "decimal-text" => {
                let [scale] = parameters else { return None };
                Self::DecimalText(known(scale, MOST_SCALE)?.unwrap_or(0))
            }
            "decimal-bytes" => {
                let (scale, most) = match parameters {
                    [scale] => (scale, MOST_BYTES),
                    [scale, most] => (scale, small(most, MOST_BYTES)?),
                    _ => return None,
                };
                Self::DecimalBytes(known(scale, MOST_SCALE)?.unwrap_or(0), most)
            }
            "decimal-number" | "decimal-double" | "spelled-decimal" => {
                let [length, scale] = parameters else { return None };
                let (length, scale) = (known(length, 65)?, known(scale, MOST_SCALE)?);
                let (java, text) = (name == "decimal-double", name == "spelled-decimal");
                Self::DecimalNumber { length, scale, java, text }
            }
            "latin1" => Self::Latin1(length(parameters)?),
            "utf8" => Self::Utf8(length(parameters)?),
            "hex" => Self::Hex(length(parameters)?),
            "plain-hex" => Self::PlainHex(length(parameters)?),
            "base64" => Self::Base64(length(parameters)?),
            "base64-url" => Self::AnyBase64(length(parameters)?),
            "guessed-binary" => Self::GuessedBinary(length(parameters)?),
            "enum-label" | "set-labels" => {
                let [Parameter::Texts(members), Parameter::Integer(_)] = parameters else { return None };
                let is_enum = name == "enum-label";
                Self::Labels(if is_enum {
                    LabelReader::of_enum(members)
                } else {
                    LabelReader::of_set(members)?
                })
            }
            "enum-member" => {
                let [Parameter::Texts(members)] = parameters else { return None };
                Self::Labels(LabelReader::of_enum(members))
            }
            "seconds" => {
                let [divisor] = parameters else { return None };
                Self::Seconds(unit(divisor)?)
            }
            "padded-datetime" => {
                let [digits, Parameter::Text(form)] = parameters else { return None };
                Self::IsoDatetime { digits: small(digits, MOST_DIGITS)?, iso: form == "iso-datetime" }
            }
            "iso-timestamp" => Self::IsoTimestamp(digits(parameters)?),
            "zoned" => Self::Zoned(digits(parameters)?),
            "iso-time" => Self::IsoTime(digits(parameters)?),
            "iso-wall" => Self::IsoWall(digits(parameters)?),
            "datetime-nanos" => Self::DatetimeNanos(digits(parameters)?),
            "clock" => Self::Clock(digits(parameters)?),
            "datetime-count" => {
                let [micros, behind] = parameters else { return None };
                Self::DatetimeCount(unit(micros)?, known(behind, MOST_DIGITS)?)
            }
            "event-time" => {
                let [divisor, Parameter::Integer(offset @ -86_399..=86_399)] = parameters else {
                    return None;
                };
                Self::EventTime { divisor: unit(divisor)?, offset_seconds: i128::from(*offset) }
            }
            "time-count" => {
                let [micros, per, behind] = parameters else { return None };
                Self::TimeCount(unit(micros)?, unit(per)?, known(behind, MOST_DIGITS)?)
            }
            "hash" => {
                let [Parameter::Bytes(key), digits, inner @ ..] = parameters else { return None };
                let hash = HashReader::new(key, small(digits, replaced::MOST_HASH_DIGITS)?)?;
                Self::replacing(Replacement::Hash(hash), inner)?
            }
            "mask" => {
                let [first, last, inner @ ..] = parameters else { return None };
                let (first, last) = (small(first, usize::MAX)?, small(last, usize::MAX)?);
                Self::replacing(Replacement::Mask { first, last }, inner)?
            }
            "truncate" => {
                let [length, inner @ ..] = parameters else { return None };
                Self::replacing(Replacement::Truncate(small(length, usize::MAX)?), inner)?
            }
            _ => return None,
        })
    }

    /// A replacement of what another read gives, which is not a replacement itself; without a read, of what a
    /// token means.
    fn replacing(by: Replacement, inner: &[Parameter]) -> Option<Self> {
        let read = match inner {
            [] => None,
            [Parameter::Text(name), parameters @ ..] => {
                let read = Self::new(name, parameters)?;
                (!matches!(read, Self::Replaced(_))).then_some(Some(read))?
            }
            _ => return None,
        };
        Some(Self::Replaced(Box::new(ReplacingReader { read, by })))
    }

    /// Those without parameters.
    fn simple(name: &str) -> Option<Self> {
        Some(match name {
            "int" | "whole-text" => Self::IntegerText,
            "decimal" => Self::DecimalText(0),
            "double-text" => Self::DoubleText,
            "float-text" => Self::FloatText,
            "int64" => Self::Int64,
            "unsigned64" => Self::Unsigned64,
            "whole" => Self::Whole,
            "signed-int" => Self::Signed,
            "plain-decimal" => Self::PlainDecimal,
            "year-1900" => Self::Year1900,
            "double-number" => Self::DoubleNumber,
            "float-number" => Self::FloatNumber,
            "float" => Self::Float,
            "unscaled-int" => Self::UnscaledInteger,
            "bits" => Self::Bits,
            "bit-bytes" => Self::BitBytes,
            "go-quoted" => Self::GoQuoted,
            "base64-text" => Self::TextOfBase64,
            "mistaken-text" => Self::MistakenText,
            "json-or-null" => Self::JsonOrNull,
            "vector" => Self::Vector,
            "date" => Self::Date,
            "datetime" => Self::Datetime,
            "time" => Self::Time,
            "iso-datetime" => Self::IsoDatetime { digits: 0, iso: true },
            "iso-date" => Self::IsoDate,
            "date-days" => Self::DateDays,
            _ => return None,
        })
    }
}

impl Write {
    /// The write of a name; None if there is none with these parameters.
    pub fn new(name: &str, parameters: &[Parameter]) -> Option<Self> {
        let simple = Self::simple(name);
        if simple.is_some() {
            return simple.filter(|_| parameters.is_empty());
        }
        Some(match name {
            "year" => Self::Year(word(parameters)?),
            "member-digits" => Self::MemberDigits(most(parameters)?),
            "natural" => Self::Natural(most(parameters)?),
            "zoned-text" => Self::ZonedText(word(parameters)?),
            "bits" => Self::Bits(small(parameters.first()?, 8)?),
            "bit-bytes" => {
                let [length] = parameters else { return None };
                Self::BitBytes(u32::try_from(small(length, 64)?).ok()?)
            }
            "unscaled" => Self::Unscaled(small(parameters.first()?, MOST_SCALE)?),
            "decimal-bytes" => {
                let [precision, scale] = parameters else { return None };
                Self::DecimalBytes(small(precision, 65)?, small(scale, MOST_SCALE)?)
            }
            "hex" => Self::Hex(length(parameters)?),
            "base64" | "padded" => Self::Base64(length(parameters)?),
            "base64-url" => Self::UrlSafe(length(parameters)?),
            "enum-label" | "set-labels" => {
                let [Parameter::Texts(members)] = parameters else { return None };
                let is_enum = name == "enum-label";
                Self::Labels(if is_enum {
                    LabelWriter::of_enum(members)
                } else {
                    LabelWriter::of_set(members)?
                })
            }
            "set-list" => {
                let [Parameter::Texts(members)] = parameters else { return None };
                Self::LabelList(LabelWriter::of_set(members)?)
            }
            "no-date" => {
                let [Parameter::Bytes(token), shortest, longest] = parameters else { return None };
                let (shortest, longest) = (small(shortest, MOST_BYTES)?, small(longest, MOST_BYTES)?);
                Self::NoDate(token.as_slice().into(), shortest, longest)
            }
            "iso" | "iso-z" => {
                let calendar = length(parameters)?.unwrap_or(0) > 0;
                Self::Iso { calendar, end: if name == "iso" { b"" } else { b"Z" } }
            }
            "timestamp-iso" => {
                let [behind, zero] = parameters else { return None };
                Self::TimestampIso(known(behind, MOST_DIGITS)?, small(zero, 1)? == 1)
            }
            "datetime-millis" => Self::DatetimeMillis(small(parameters.first()?, MOST_BYTES)?),
            "datetime-units" => {
                let [up, down] = parameters else { return None };
                Self::DatetimeUnits(unit(up)?, unit(down)?)
            }
            _ => return None,
        })
    }

    /// Those without parameters.
    fn simple(name: &str) -> Option<Self> {
        Some(match name {
            "digits" => Self::Digits,
            "int64" => Self::Int64,
            "int32" => Self::Int32,
            "long" => Self::Long,
            "signed64" => Self::Signed64,
            "boolean" => Self::Boolean,
            "decimal" => Self::Decimal,
            "decimal-number" => Self::DecimalNumber,
            "java-decimal" => Self::JavaDecimal,
            "decimal-double" => Self::DecimalDouble,
            "rounded-double" => Self::RoundedDouble,
            "decimal-float" => Self::DecimalFloat,
            "rounded-float" => Self::RoundedFloat,
            "go-float" => Self::GoText,
            "java-double" => Self::JavaDouble,
            "java-float" => Self::JavaFloat,
            "java-number" => Self::JavaNumber,
            "java-number-float" => Self::JavaNumberOfFloat,
            "go-number" => Self::GoNumber,
            "go-number-float" => Self::GoNumberOfFloat,
            "finite" => Self::Finite,
            "finite-float" => Self::FiniteFloat,
            "big-endian" => Self::BigEndian,
            "base64-stripped" => Self::Base64Stripped,
            "latin1" => Self::Latin1,
            "latin1-stripped" => Self::Latin1Stripped,
            "go-quoted" => Self::GoQuoted,
            "text-base64" => Self::TextBase64,
            "vector" => Self::Vector,
            "document" => Self::Document,
            "some-document" => Self::SomeDocument,
            "null-document" => Self::NullDocument,
            "text" => Self::Text,
            "html-text" => Self::HtmlText,
            "compact-json" => Self::CompactJson,
            "row-key" => Self::RowKey,
            "label" => Self::Label,
            "calendar" => Self::Calendar,
            "own-date-iso" => Self::DateIso,
            "datetime-iso" => Self::DatetimeIso,
            "time-iso" => Self::TimeIso,
            "date-days" => Self::DateDays { moves: true },
            "own-date-days" => Self::DateDays { moves: false },
            "datetime-micros" => Self::DatetimeMicros,
            "time-micros" => Self::TimeMicros,
            "time-millis" => Self::TimeMillis,
            "time-nanos" => Self::TimeNanos,
            _ => return None,
        })
    }
}

/// Read a token that is not null, and print it.
pub fn convert(
    read: Option<&Read>,
    write: Option<&Write>,
    token: &Token<'_>,
    how: LongEscapes,
    out: &mut Vec<u8>,
) -> Option<()> {
    if let Some(done) = digits_that_stay(read, write, token, out) {
        return done;
    }
    if read.is_some_and(|read| unchanged::is_unchanged(read, write, token)) {
        out.extend_from_slice(token.text);
        return Some(());
    }
    if token.kind == Kind::Text && token.escapes == Escapes::None {
        if let Some(done) = text_that_stays(read, write, token.inside(), how, out) {
            return done;
        }
    }
    let value = match read {
        Some(read) => read.read(token)?,
        None => parsed(token)?,
    };
    match write {
        Some(write) => write.print(value, how, out),
        None => print(&value, how, out),
    }
}

/// Print an integer that stays as it is, in quotes or without; None for other conversions.
fn digits_that_stay(
    read: Option<&Read>,
    write: Option<&Write>,
    token: &Token<'_>,
    out: &mut Vec<u8>,
) -> Option<Option<()>> {
    let (digits, are_known) = match (read, token.kind) {
        (Some(Read::Int64), Kind::Integer) => (token.text, true),
        (Some(Read::Signed), Kind::Integer) if json::short_integer(token.text).is_some() => {
            (token.text, true)
        }
        (Some(Read::IntegerText), Kind::Text) if token.escapes == Escapes::None => (token.inside(), false),
        _ => return None,
    };
    let is_text = match write {
        None | Some(Write::Int64) => false,
        Some(Write::Digits) => true,
        _ => return None,
    };
    if !are_known && !json::is_integer(digits) {
        return Some(None);
    }
    if is_text {
        print_plain(digits, out);
    } else {
        out.extend_from_slice(digits);
    }
    Some(Some(()))
}

/// Print a text that reading does not change; None for reads that may.
fn text_that_stays(
    read: Option<&Read>,
    write: Option<&Write>,
    text: &[u8],
    how: LongEscapes,
    out: &mut Vec<u8>,
) -> Option<Option<()>> {
    let fits = match read {
        None => true,
        Some(Read::Date) => temporal::is_date(text),
        Some(Read::Datetime) => temporal::is_datetime(text),
        Some(Read::Time) => temporal::is_time(text),
        Some(Read::JsonOrNull) if !text.is_empty() => true,
        Some(Read::DecimalText(scale)) if decimals::is_text(text, *scale) => {
            return Some(write.and_then(|write| write.decimal(text, out)));
        }
        _ => return None,
    };
    Some(match write {
        _ if !fits => None,
        Some(write) => write.text(text, how, out),
        None => {
            print_plain(text, out);
            Some(())
        }
    })
}

// ---------------------------------------------------------------- reading

impl Read {
    /// The canonical value of a token that is not null.
    fn read<'a>(&'a self, token: &Token<'a>) -> Option<Value<'a>> {
        if let Self::Replaced(replacing) = self {
            return replacing.read(token);
        }
        match token.kind {
            Kind::Text => self.text(json::meaning(token)?.into()),
            Kind::Integer | Kind::Number => self.number(token),
            Kind::Boolean => match self {
                Self::Whole => Some(Value::Integer(i128::from(token.text == b"true"))),
                _ => None,
            },
            Kind::Null => None,
        }
    }

    fn text<'a>(&'a self, text: Text<'a>) -> Option<Value<'a>> {
        let bytes = |bytes: Vec<u8>, length: Length| Value::Bytes(padded(Text::Owned(bytes), length));
        Some(match self {
            Self::IntegerText => integers::of_text(&text)?,
            Self::MemberNumber(most) => integers::of_text(&text)
                .filter(|number| matches!(number, Value::Integer(number) if (0..=*most).contains(number)))?,
            Self::YearText(zero) => match text {
                Text::Borrowed(text) => Value::Text(Text::Borrowed(integers::year_text(zero, text)?)),
                _ => return None,
            },
            Self::DecimalText(scale) => Value::Decimal(decimals::of_text(text, *scale)?),
            Self::DecimalNumber { length, scale, text: true, .. } => {
                let decimal = decimals::of_text(text, scale.unwrap_or(0))?;
                within(decimal, *length, *scale)?
            }
            Self::DoubleText => Value::Float(floats::of_text(&text)?),
            Self::FloatText => Value::Float(floats::float_of_text(&text)?),
            Self::DecimalBytes(scale, most) => {
                let bytes = binary::of_base64(&text).filter(|bytes| bytes.len() <= *most)?;
                Value::Decimal(decimals::of_bytes(&bytes, *scale)?)
            }
            Self::UnscaledInteger => Value::Integer(integers::of_big_endian(&binary::of_base64(&text)?)?),
            Self::Bits => Value::Integer(integers::of_bits(&binary::of_base64(&text)?)?),
            Self::BitBytes => Value::Integer(integers::of_bit_bytes(&binary::of_base64(&text)?)?),
            Self::Latin1(length) => Value::Bytes(padded(binary::of_latin1(text)?, *length)),
            Self::Utf8(length) => Value::Bytes(padded(text, *length)),
            Self::Hex(length) => bytes(binary::of_prefixed_hex(&text)?, *length),
            Self::PlainHex(length) => bytes(binary::of_hex(&text)?, *length),
            Self::Base64(length) => bytes(binary::of_base64(&text)?, *length),
            Self::AnyBase64(length) => bytes(binary::of_any_base64(&text)?, *length),
            Self::GuessedBinary(length) => bytes(binary::of_guessed(&text, *length)?, None),
            Self::GoQuoted => Value::Bytes(binary::of_quoted(text)?),
            Self::TextOfBase64 => Value::Text(binary::text_of_base64(&text)?),
            Self::MistakenText => Value::Text(binary::of_mistaken(text)?),
            Self::JsonOrNull => Value::Text(if text.is_empty() { Text::Borrowed(b"null") } else { text }),
            Self::Vector => Value::Text(documents::is_vector(&text).then_some(text)?),
            Self::Labels(labels) => Value::Integer(labels.number(&text)?),
            _ => Value::Text(self.time_of_text(text)?),
        })
    }

    fn time_of_text<'a>(&self, text: Text<'a>) -> Option<Text<'a>> {
        match self {
            Self::Date => temporal::is_date(&text).then_some(text),
            Self::Datetime => temporal::is_datetime(&text).then_some(text),
            Self::Time => temporal::is_time(&text).then_some(text),
            Self::IsoDatetime { digits, iso } => {
                let text = if *iso { temporal::of_iso(text)? } else { text };
                let text = temporal::is_datetime(&text).then_some(text)?;
                temporal::with_digits(text, *digits)
            }
            Self::IsoDate => match text {
                Text::Borrowed(text) => {
                    let date = text.strip_suffix(b"Z").unwrap_or(text);
                    temporal::is_date(date).then_some(Text::Borrowed(date))
                }
                _ => None,
            },
            Self::IsoTimestamp(_) | Self::Zoned(_) | Self::IsoTime(_) | Self::IsoWall(_) => match text {
                Text::Borrowed(text) => self.iso_text(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn iso_text<'a>(&self, iso: &'a [u8]) -> Option<Text<'a>> {
        match self {
            Self::IsoTimestamp(digits) => temporal::of_iso_timestamp(iso, *digits),
            Self::Zoned(digits) => temporal::of_zoned(iso, *digits),
            Self::IsoTime(digits) => temporal::of_iso_time(iso, *digits),
            Self::IsoWall(digits) => temporal::of_wall(iso, *digits),
            _ => None,
        }
    }

    fn number<'a>(&self, token: &Token<'a>) -> Option<Value<'a>> {
        match self {
            Self::DoubleNumber => json::float(token.text).map(Value::Float),
            Self::FloatNumber => {
                json::float(token.text).filter(|&value| floats::is_float(value)).map(Value::Float)
            }
            Self::Float => floats::shortest_float(json::float(token.text)?).map(Value::Float),
            Self::PlainDecimal => {
                decimals::is_text(token.text, 0).then_some(Value::Decimal(Text::Borrowed(token.text)))
            }
            Self::Seconds(divisor) => {
                let nanos = decimals::nanos(token.text)?;
                Some(Value::Integer(nanos / divisor))
            }
            Self::DecimalNumber { length, scale, java, text } => {
                let decimal = decimals::of_number(token.text, *scale, *java)?;
                if let (Some(length), Some(scale), false, false) = (length, scale, java, text) {
                    if let Some(greatest) = decimals::greatest(&decimal, *length, *scale) {
                        return Some(Value::Decimal(greatest));
                    }
                }
                within(decimal, *length, *scale)
            }
            _ if token.kind == Kind::Integer => self.integer(json::integer(token.text)?),
            _ => None,
        }
    }

    fn integer<'a>(&self, number: i128) -> Option<Value<'a>> {
        Some(match self {
            Self::Int64 | Self::Whole => Value::Integer(number),
            Self::Signed => Value::Integer(i64::try_from(number).ok().map(i128::from)?),
            Self::Natural(most) => Value::Integer((0..=*most).contains(&number).then_some(number)?),
            Self::Unsigned64 => Value::Integer(integers::unsigned(number)),
            Self::Year1900 => Value::Integer(if number == 1900 { 0 } else { number }),
            Self::DateDays => Value::Text(temporal::date_text(number)?),
            Self::DatetimeCount(micros, digits) => {
                Value::Text(temporal::datetime_text(number * micros, *digits)?)
            }
            Self::DatetimeNanos(digits) => {
                Value::Text(temporal::datetime_text(whole_micros(number, 1_000)?, *digits)?)
            }
            Self::TimeCount(micros, per, digits) => {
                let micros = if *per > 1 { whole_micros(number, *per)? } else { number * micros };
                Value::Text(temporal::time_text(micros, *digits)?)
            }
            Self::Clock(digits) => Value::Text(temporal::clock_text(number, *digits)?),
            Self::EventTime { divisor, offset_seconds } => {
                Value::Text(temporal::event_time(number.div_euclid(*divisor), *offset_seconds)?)
            }
            _ => return None,
        })
    }
}

/// So many parts of a microsecond, of which `per` make one, if they are whole ones: a decoder counts others.
fn whole_micros(number: i128, per: i128) -> Option<i128> {
    (number % per == 0).then_some(number / per)
}

/// A decimal whose column can hold it: greater ones may have been rounded.
fn within(decimal: Text<'_>, length: Option<usize>, scale: Digits) -> Option<Value<'_>> {
    let is_within = match (length, scale) {
        (Some(length), Some(scale)) => {
            let most = length.saturating_sub(scale);
            let digits = decimals::whole_digits(&decimal);
            digits <= most || (most == 0 && decimals::is_below_one(&decimal))
        }
        _ => true,
    };
    is_within.then_some(Value::Decimal(decimal))
}

// ---------------------------------------------------------------- writing

fn print_plain(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

impl Write {
    /// Print a canonical value as one JSON token.
    fn print(&self, value: Value<'_>, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        match value {
            Value::Integer(number) => self.integer(number, how, out),
            Value::Float(value) => self.float(value, out),
            Value::Decimal(decimal) => self.decimal(&decimal, out),
            Value::Text(text) => self.text(&text, how, out),
            Value::Bytes(bytes) => self.bytes(bytes, how, out),
            Value::Boolean(_) => match self {
                Self::Boolean | Self::RowKey => print(&value, how, out),
                _ => None,
            },
        }
    }

    fn integer(&self, number: i128, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Int64 | Self::RowKey => json::print_integer(number, out),
            Self::Int32 => json::print_integer(i32::try_from(number).ok().map(i128::from)?, out),
            Self::Long => json::print_integer(i64::try_from(number).ok().map(i128::from)?, out),
            Self::Signed64 => json::print_integer(integers::signed(number)?, out),
            Self::Natural(most) if (0..=*most).contains(&number) => json::print_integer(number, out),
            Self::Digits => print_digits(number, out),
            Self::MemberDigits(most) if (0..=*most).contains(&number) => print_digits(number, out),
            Self::Year(zero) if number == 0 => {
                print_plain(zero, out);
                Some(())
            }
            Self::Year(_) => print_digits(number, out),
            Self::Boolean => {
                let text: &[u8] = match number {
                    0 => b"false",
                    1 => b"true",
                    _ => return None,
                };
                out.extend_from_slice(text);
                Some(())
            }
            Self::Bits(size) => {
                let (bytes, size) = integers::bits(*size, number)?;
                binary::print_base64(&bytes[..size], out);
                Some(())
            }
            Self::BitBytes(length) => {
                let (bytes, start) = integers::bit_bytes(*length, number)?;
                binary::print_base64(&bytes[start..], out);
                Some(())
            }
            Self::BigEndian => {
                let (bytes, start) = integers::big_endian(number);
                binary::print_base64(&bytes[start..], out);
                Some(())
            }
            Self::Labels(labels) => labels.print(number, how, out),
            Self::LabelList(labels) => labels.print_list(u64::try_from(number).ok()?, how, out),
            _ => None,
        }
    }

    fn float(&self, value: f64, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::GoText => floats::print_go_text(value, out),
            Self::JavaDouble => floats::print_java_text(value, floats::LEAST_JAVA_DOUBLE, out),
            Self::JavaFloat => floats::print_java_text(value, floats::LEAST_JAVA_FLOAT, out),
            Self::JavaNumber => floats::print_java_number(value, floats::LEAST_JAVA_DOUBLE, out),
            Self::JavaNumberOfFloat => floats::print_java_number(value, floats::LEAST_JAVA_FLOAT, out),
            Self::GoNumber => floats::print_go_number(value, out),
            Self::GoNumberOfFloat => floats::is_float(value).then(|| floats::print_go_number(value, out))?,
            Self::FiniteFloat if !floats::is_float(value) => None,
            Self::Finite | Self::FiniteFloat | Self::RowKey => {
                json::print_float(value, out);
                Some(())
            }
            _ => None,
        }
    }

    fn decimal(&self, decimal: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Decimal | Self::RowKey => print_plain(decimal, out),
            Self::DecimalNumber => out.extend_from_slice(decimal),
            Self::JavaDecimal => decimals::print_java_number(decimal, out),
            Self::DecimalDouble => floats::print_go_number(decimals::float(decimal)?, out)?,
            Self::RoundedDouble => floats::print_go_number(decimals::rounded_float(decimal)?, out)?,
            Self::DecimalFloat => json::print_float(decimals::float(decimal)?, out),
            Self::RoundedFloat => json::print_float(decimals::rounded_float(decimal)?, out),
            Self::Unscaled(scale) => binary::print_base64(&decimals::bytes(decimal, *scale)?, out),
            Self::DecimalBytes(precision, scale) => {
                let digits = decimals::unscaled_digits(decimal, *scale)?;
                (digits <= *precision).then_some(())?;
                binary::print_base64(&decimals::bytes(decimal, *scale)?, out);
            }
            _ => return None,
        }
        Some(())
    }

    fn text(&self, text: &[u8], how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Digits | Self::Label | Self::Text | Self::RowKey => json::print_text(text, how, out),
            Self::HtmlText => json::print_html_text(text, how, out),
            Self::ZonedText(location) => {
                out.extend_from_slice(b"{\"location\":");
                json::print_text(location, how, out);
                out.extend_from_slice(b",\"value\":");
                json::print_text(text, how, out);
                out.push(b'}');
            }
            Self::TextBase64 => binary::print_base64(text, out),
            Self::Vector => documents::is_vector(text).then(|| print_plain(text, out))?,
            Self::SomeDocument if text == b"null" => return None,
            Self::NullDocument if text != b"null" => return None,
            Self::Document | Self::SomeDocument | Self::NullDocument => {
                documents::is_document(text).then(|| out.extend_from_slice(text))?;
            }
            Self::CompactJson => {
                if memchr::memchr2(b' ', b'\n', text).is_none() {
                    json::print_text(text, how, out);
                } else {
                    json::print_text(&documents::compact(text)?, how, out);
                }
            }
            _ => self.time(text, out)?,
        }
        Some(())
    }

    fn time(&self, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::NoDate(token, shortest, longest) => {
                let fits = (*shortest..=*longest).contains(&text.len()) && temporal::is_no_date(text);
                fits.then(|| out.extend_from_slice(token))?;
            }
            Self::Calendar => temporal::is_in_calendar(text).then(|| print_plain(text, out))?,
            Self::Iso { calendar, end } => print_plain(&temporal::iso(text, end, *calendar)?, out),
            Self::TimestampIso(digits, zero) => {
                print_plain(&temporal::iso_timestamp(text, *digits, *zero)?, out);
            }
            Self::DateIso => {
                temporal::date_days(text, false)?;
                out.push(b'"');
                out.extend_from_slice(text);
                out.extend_from_slice(b"Z\"");
            }
            Self::DatetimeIso => print_plain(&temporal::iso_datetime(text)?, out),
            Self::TimeIso => print_plain(&temporal::iso_time(text)?, out),
            _ => json::print_integer(self.count(text)?, out)?,
        }
        Some(())
    }

    /// A date or time as a number.
    fn count(&self, text: &[u8]) -> Option<i128> {
        match self {
            Self::DateDays { moves } => temporal::date_days(text, *moves),
            Self::DatetimeMillis(longest) => {
                let micros = temporal::unmoved_micros(text).filter(|_| text.len() <= *longest)?;
                divided(micros, 1_000)
            }
            Self::DatetimeMicros => temporal::unmoved_micros(text),
            Self::DatetimeUnits(up, down) => {
                let count = divided(temporal::datetime_micros(text)? * up, *down)?;
                i64::try_from(count).ok().map(i128::from)
            }
            Self::TimeMicros => temporal::time_micros(text),
            Self::TimeMillis => {
                let micros = temporal::time_micros(text)?;
                divided(micros, 1_000).filter(|_| (0..=86_400_000_000).contains(&micros))
            }
            Self::TimeNanos => Some(temporal::time_micros(text)? * 1_000),
            _ => None,
        }
    }

    fn bytes(&self, bytes: Text<'_>, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Latin1 => binary::print_latin1(&bytes, how, out),
            Self::Latin1Stripped => binary::print_latin1(binary::stripped(&bytes), how, out),
            Self::Hex(length) => binary::print_hex(&padded(bytes, *length), out),
            Self::Base64(length) => binary::print_base64(&padded(bytes, *length), out),
            Self::Base64Stripped => binary::print_base64(binary::stripped(&bytes), out),
            Self::UrlSafe(length) => binary::print_url_safe(&padded(bytes, *length), out),
            Self::GoQuoted => binary::print_quoted(&bytes, how, out)?,
            Self::RowKey => binary::print_base64(&bytes, out),
            _ => return None,
        }
        Some(())
    }
}

fn print_digits(number: i128, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'"');
    json::print_integer(number, out)?;
    out.push(b'"');
    Some(())
}

fn divided(number: i128, by: i128) -> Option<i128> {
    (number % by == 0).then_some(number / by)
}

/// What a token means that nothing reads; it is not null.
fn parsed<'a>(token: &Token<'a>) -> Option<Value<'a>> {
    Some(match token.kind {
        Kind::Integer => Value::Integer(json::integer(token.text)?),
        Kind::Number => Value::Float(json::float(token.text)?),
        Kind::Text => Value::Text(json::meaning(token)?.into()),
        Kind::Boolean => Value::Boolean(token.text == b"true"),
        Kind::Null => return None,
    })
}

/// Print a value as msgspec does.
fn print(value: &Value<'_>, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(integer) => json::print_integer(*integer, out)?,
        Value::Float(float) => json::print_float(*float, out),
        Value::Text(Text::Inline(text)) => print_plain(text, out),
        Value::Text(text) => json::print_text(text, how, out),
        Value::Bytes(bytes) => binary::print_base64(bytes, out),
        Value::Decimal(_) => return None,
    }
    Some(())
}
