//! What a template is made of; `relay.templates.ops` says what it means.

use std::sync::Arc;

use crate::avro::AvroOp;
use crate::conversions::{Read, Write};
use crate::names::Names;
use crate::token::{Escapes, Kind, Kinds};

pub type Bytes = Box<[u8]>;

/// The constants of a part of the source or the target, in the order in which they are used: where there are
/// more templates than a processor's caches hold, what stands together is read sooner.
#[derive(PartialEq)]
pub struct Constants(pub Bytes);

/// Where a constant stands among those of its part.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Constant {
    pub start: u32,
    pub end: u32,
}

impl Constants {
    #[inline]
    pub fn text(&self, constant: Constant) -> &[u8] {
        self.0.get(constant.start as usize..constant.end as usize).unwrap_or_default()
    }

    /// What begins where a constant does, and is so long.
    #[inline]
    pub fn slice(&self, constant: Constant, length: usize) -> Option<&[u8]> {
        self.0.get(constant.start as usize..)?.get(..length)
    }
}

/// What a part of the source or the target is: ops with constants before them, and one behind all.
#[derive(PartialEq)]
pub struct Part<Op> {
    pub constants: Constants,
    pub ops: Steps<Op>,
}

#[derive(PartialEq)]
pub struct Steps<Op> {
    pub steps: Vec<Step<Op>>,
    pub end: Constant,
}

/// An op, and the constant before it, which may be empty.
#[derive(PartialEq)]
pub struct Step<Op> {
    pub before: Constant,
    pub op: Op,
}

pub type Source = Part<SourceOp>;
pub type Target = Part<TargetOp>;

/// Small, as a table of many columns has many of them.
#[derive(PartialEq)]
pub enum SourceOp {
    Take(Kinds),
    OneOf(Box<[Constant]>),
    Members(Box<Members>),
    Unordered(Box<Unordered>),
    Length(usize),
    Repeated(Box<Repeated>),
    /// A value in Avro; each of its scalar values has a slot, of these kinds.
    Avro(Box<(AvroOp, Vec<Kinds>)>),
    /// The number of bytes up to the matching `Leave`.
    Enter,
    Leave,
    Varint,
    Text(Box<Text>),
}

/// A text of Protocol Buffers: what stands before its size, and what stands for null or an empty text instead.
#[derive(PartialEq)]
pub struct Text {
    pub head: Constant,
    pub null: Option<Constant>,
    pub empty: Option<Constant>,
}

impl Text {
    pub fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::default();
        kinds.add(Kind::Text);
        if self.null.is_some() {
            kinds.add(Kind::Null);
        }
        kinds
    }
}

/// Ops that come once for each row, what stands between two rounds of them, and how many slots they have.
#[derive(PartialEq)]
pub struct Repeated {
    pub ops: Steps<SourceOp>,
    pub between: Constant,
    pub width: usize,
}

/// Any of these members, and what stands behind each of their tokens.
#[derive(PartialEq)]
pub struct Members {
    pub each: Vec<Member>,
    pub end: Constant,
}

/// A member that may be missing.
#[derive(PartialEq)]
pub struct Member {
    /// A comma, and what stands before the token.
    pub name: Constant,
    pub kinds: Kinds,
}

/// Members in any order; those with the same text up to the first colon stand together.
#[derive(PartialEq)]
pub struct Unordered {
    /// They stand in the first half of `round`.
    pub members: Vec<Constant>,
    pub names: Names,
    /// The members in the order in which they mostly are, with commas, twice, so that they are all there behind
    /// each one of the first half; and how long they are together.
    pub round: Constants,
    pub length: usize,
}

impl Unordered {
    /// Which member a text begins with.
    pub fn find(&self, text: &[u8]) -> Option<usize> {
        self.names.find(|place| Some(self.round.text(*self.members.get(place)?)), text)
    }
}

/// Small, too.
pub enum TargetOp {
    Put(Put),
    Span(Box<Span>),
    Number(Vec<Calculation>),
    Changed(Vec<Change>),
    Choice(Box<Choice>),
    Sized(usize, Box<Steps<TargetOp>>),
    /// What an op prints, in Avro.
    Avro(Box<(AvroOp, TargetOp)>),
}

const _: () = assert!(size_of::<SourceOp>() <= 24 && size_of::<TargetOp>() <= 32);

/// Mostly one slot or two, which take no memory of their own.
#[expect(clippy::box_collection, reason = "so all of it has 16 bytes")]
pub enum Slots {
    One([u32; 1]),
    Two([u32; 2]),
    Several(Box<Vec<u32>>),
}

impl Slots {
    #[inline]
    pub fn all(&self) -> &[u32] {
        match self {
            Self::One(slot) => slot,
            Self::Two(slots) => slots,
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
    pub each: Steps<TargetOp>,
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
    pub steps: Vec<Arithmetic>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Integer {
    Slot(usize),
    /// A slot with a local date and time as text, in microseconds since 1970. `ahead`: the clock's offset from
    /// UTC in seconds.
    Datetime {
        slot: usize,
        ahead: i64,
    },
    Offset,
    TimeMs,
}

#[derive(PartialEq)]
pub enum Arithmetic {
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
    /// A local date and time as text. Allowed only as the first step; reading moves it into `Integer::Datetime`.
    Datetime(i64),
}

pub struct Change {
    pub name: Constant,
    pub old: Put,
    pub new: Put,
    /// Whether both are written in the same way.
    pub same: bool,
}

pub struct Choice {
    pub slots: Slots,
    pub null: Constant,
    pub small: Constant,
    pub large: Constant,
    pub least: Option<i128>,
}

pub enum Condition {
    /// Above the one number and below the other.
    Within(Calculation, i128, i128),
    /// Two sums that are equal, or not.
    Equal(Vec<Calculation>, Vec<Calculation>, bool),
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
