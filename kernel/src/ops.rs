//! What a template is made of; `relay.templates.ops` says what it means.

use std::sync::Arc;

use crate::conversions::{Read, Write};
use crate::names::Names;
use crate::token::{Escapes, Kinds};

pub type Bytes = Box<[u8]>;

/// What a part of the source is: steps, and what stands behind them.
#[derive(PartialEq)]
pub struct Source {
    pub steps: Vec<SourceStep>,
    pub end: Bytes,
}

/// An op, and the constant before it, which may be empty.
#[derive(PartialEq)]
pub struct SourceStep {
    pub text: Bytes,
    pub op: SourceOp,
}

/// Small, as a table of many columns has many of them.
#[derive(PartialEq)]
pub enum SourceOp {
    Take(Kinds),
    OneOf(Box<[Bytes]>),
    Members(Box<Members>),
    Unordered(Box<Unordered>),
    Length(usize),
    Repeated(Box<Repeated>),
}

/// Ops that come once for each row, what stands between two rounds of them, and how many slots they have.
#[derive(PartialEq)]
pub struct Repeated {
    pub ops: Source,
    pub between: Bytes,
    pub width: usize,
}

/// Any of these members, and what stands behind each of their tokens.
#[derive(PartialEq)]
pub struct Members {
    pub each: Vec<Member>,
    pub end: Bytes,
}

/// A member that may be missing.
#[derive(PartialEq)]
pub struct Member {
    /// A comma, and what stands before the token.
    pub name: Bytes,
    pub kinds: Kinds,
}

/// Members in any order; those with the same text up to the first colon stand together.
#[derive(PartialEq)]
pub struct Unordered {
    pub members: Vec<Bytes>,
    pub names: Names,
    /// The members in the order in which they mostly are, with commas, twice, so that they are all there behind
    /// each one of the first half; where each begins there, and how long they are together.
    pub round: Bytes,
    pub starts: Vec<u32>,
    pub length: usize,
}

/// What a part of the target is: steps, and what stands behind them.
pub struct Target {
    pub steps: Vec<TargetStep>,
    pub end: Bytes,
}

/// An op, and the constant before it, which may be empty.
pub struct TargetStep {
    pub text: Bytes,
    pub op: TargetOp,
}

/// Small, too.
pub enum TargetOp {
    Put(Put),
    Span(Box<Span>),
    Number(Vec<Calculation>),
    Changed(Vec<Change>),
    Choice(Box<Choice>),
    Sized(usize, Box<Target>),
}

const _: () = assert!(size_of::<SourceOp>() <= 24 && size_of::<TargetOp>() <= 32);

/// Mostly one slot: that takes no memory of its own.
#[expect(clippy::box_collection, reason = "so it is as small as one slot")]
pub enum Slots {
    One(usize),
    Several(Box<Vec<usize>>),
}

impl Slots {
    #[inline]
    pub fn all(&self) -> &[usize] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Several(slots) => slots,
        }
    }
}

/// Values that are written alike share what says how.
pub struct Put {
    pub slots: Slots,
    pub how: Arc<How>,
}

/// Tokens that the target has as the message has them, with the same between them.
pub struct Span {
    pub first: usize,
    pub last: usize,
    /// A string with such escapes, or plainer ones, stays as it is.
    pub escapes: Escapes,
    /// The same, token by token.
    pub each: Target,
}

/// How a value is written.
#[derive(PartialEq)]
pub struct How {
    pub read: Option<Read>,
    pub write: Option<Write>,
    pub null: Option<Bytes>,
    pub long_escapes: bool,
    /// What values that `write` does not take are written by, and what each adds to the template's number.
    pub lossy: Option<Write>,
    pub adds: u64,
    pub null_adds: u64,
}

/// An integer's slot, and what is done with it.
#[derive(PartialEq)]
pub struct Calculation {
    pub slot: Integer,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Integer {
    Slot(usize),
    Offset,
    TimeMs,
}

#[derive(PartialEq)]
pub enum Step {
    Add(i128),
    Subtract(i128),
    Multiply(i128),
    Divide(i128),
    /// Divide by ten, so often.
    DropDigits(u8),
    Remainder(i128),
    Left(u32),
    Right(u32),
    /// A wall clock that is so many seconds ahead of UTC as seconds since 1970.
    Clock(i64),
}

pub struct Change {
    pub name: Bytes,
    pub old: Put,
    pub new: Put,
    /// Whether both are written in the same way.
    pub same: bool,
}

pub struct Choice {
    pub slots: Slots,
    pub null: Bytes,
    pub small: Bytes,
    pub large: Bytes,
    pub least: Option<i128>,
}

pub enum Condition {
    /// Above the one number and below the other.
    Within(Calculation, i128, i128),
    Same(usize, usize),
    Fits(Put),
    Filled(usize),
    /// Of each of these slots.
    Among {
        slots: Vec<usize>,
        tokens: Vec<Bytes>,
        is_one: bool,
    },
    Differ(Vec<(Put, Put)>),
}

/// One message of the target.
pub struct TargetMessage {
    pub key: Option<Target>,
    pub value: Option<Target>,
}

pub struct Template {
    pub key: Option<Source>,
    pub value: Option<Source>,
    pub conditions: Vec<Condition>,
    /// What a row becomes; there is one at least.
    pub targets: Vec<TargetMessage>,
    pub most_bytes: usize,
    /// Python's hash of it: the same for an equal one.
    pub hash: isize,
}
