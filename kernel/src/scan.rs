//! The source: takes a message apart, as a template says. None means that the message does not fit.

use crate::avro;
use crate::clear;
use crate::fields;
use crate::json;
use crate::ops::{Constant, Constants, Members, Repeated, Source, SourceOp, Steps, Text, Unordered};
use crate::token::{Escapes, Kind, Kinds, Place, Places, Within};

/// The values found in a message, and scratch buffers; reused for the next message.
#[derive(Default)]
pub struct Scan {
    /// By slot; of the row at hand.
    pub places: Places,
    /// The tokens of values in Avro.
    pub printed: Vec<u8>,
    /// Of the rounds behind the first one, round by round.
    later: Places,
    rounds: Vec<Rounds>,
    /// Which members of an object have come.
    met: Vec<bool>,
    /// Where the bytes end that ops have entered and not left, from the end of the part.
    ends: Vec<usize>,
    /// Whether a message of several rows does not fit.
    pub is_of_one: bool,
}

/// The later rounds of a `Repeated`.
struct Rounds {
    /// The first slot, and how many there are.
    slot: usize,
    width: usize,
    /// Where its places begin among those of later rounds.
    start: usize,
    count: usize,
}

impl Scan {
    /// Clear the values for the next message.
    pub fn clear(&mut self) {
        clear(&mut self.places);
        clear(&mut self.printed);
        clear(&mut self.later);
        clear(&mut self.rounds);
        clear(&mut self.ends);
    }

    /// Append a place for each slot of a part of the message. The whole part is taken.
    pub fn part(&mut self, source: &Source, part: &[u8], within: Within) -> Option<()> {
        u32::try_from(part.len()).ok()?;
        let Source { constants, ops } = source;
        let mut scanner = Scanner { scan: self, constants, length: part.len(), rest: part, within };
        scanner.steps(ops)?;
        scanner.rest.is_empty().then_some(())?;
        self.ends.is_empty().then_some(())
    }

    /// How many rows the message has; None if there are not as many of all rounds.
    pub fn rows(&self) -> Option<usize> {
        let Some((first, others)) = self.rounds.split_first() else { return Some(1) };
        others.iter().all(|rounds| rounds.count == first.count).then_some(1 + first.count)
    }

    /// Go to a row behind the first one.
    pub fn go_to(&mut self, row: usize) -> Option<()> {
        for &Rounds { slot, width, start, .. } in &self.rounds {
            let start = start + (row - 1) * width;
            let places = self.later.get(start..start + width)?;
            self.places.get_mut(slot..slot + width)?.copy_from_slice(places);
        }
        Some(())
    }
}

/// How many numbers at the end of a part are looked at before it is scanned.
const NUMBERS_AT_END: usize = 4;

/// Whether a part ends like a source: its last constant, and those before it as long as nothing but integers
/// is between them. Cheaper than a scan, which finds out at the end.
pub fn ends_like(source: &Source, part: &[u8]) -> bool {
    let Source { constants, ops } = source;
    let (mut rest, mut text) = (part, constants.text(ops.end));
    for step in ops.steps.iter().rev().take(NUMBERS_AT_END) {
        let Some(before) = rest.strip_suffix(text) else { return false };
        let is_integer = matches!(step.op, SourceOp::Take(kinds) if kinds.are_among(&[Kind::Integer]));
        text = constants.text(step.before);
        if !is_integer || text.last().is_none_or(|byte| matches!(byte, b'-' | b'0'..=b'9')) {
            return true;
        }
        let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        rest = &before[..before.len() - digits];
        rest = rest.strip_suffix(b"-").unwrap_or(rest);
    }
    rest.ends_with(text)
}

struct Scanner<'a, 's> {
    scan: &'s mut Scan,
    constants: &'s Constants,
    /// Of the whole part.
    length: usize,
    /// What is not taken yet.
    rest: &'a [u8],
    within: Within,
}

impl<'a> Scanner<'a, '_> {
    #[inline]
    fn steps(&mut self, ops: &Steps<SourceOp>) -> Option<()> {
        for step in &ops.steps {
            self.constant(step.before)?;
            match &step.op {
                SourceOp::Take(kinds) => self.take(*kinds)?,
                SourceOp::OneOf(texts) => texts.iter().find_map(|text| self.constant(*text))?,
                SourceOp::Members(members) => self.members(members)?,
                SourceOp::Unordered(members) => self.unordered(members)?,
                SourceOp::Length(width) => self.length(*width)?,
                SourceOp::Repeated(repeated) => self.repeated(repeated)?,
                SourceOp::Avro(value) => {
                    let Scan { places, printed, .. } = &mut *self.scan;
                    self.rest = avro::scan(&value.0, self.rest, printed, places)?;
                }
                SourceOp::Enter => self.enter()?,
                SourceOp::Leave => (self.scan.ends.pop()? == self.rest.len()).then_some(())?,
                SourceOp::Varint => self.varint()?,
                SourceOp::Text(text) => self.sized_text(text)?,
            }
        }
        self.constant(ops.end)
    }

    fn repeated(&mut self, repeated: &Repeated) -> Option<()> {
        let slot = self.scan.places.len();
        self.steps(&repeated.ops)?;
        let (start, width, mut count) = (self.scan.later.len(), repeated.width, 0);
        if self.scan.is_of_one && behind(self.rest, self.constants.text(repeated.between)).is_some() {
            return None;
        }
        std::mem::swap(&mut self.scan.places, &mut self.scan.later);
        while self.constant(repeated.between).is_some() {
            self.steps(&repeated.ops)?;
            count += 1;
        }
        std::mem::swap(&mut self.scan.places, &mut self.scan.later);
        self.scan.rounds.push(Rounds { slot, width, start, count });
        Some(())
    }

    #[inline]
    fn constant(&mut self, constant: Constant) -> Option<()> {
        self.text(self.constants.text(constant))
    }

    #[inline]
    fn text(&mut self, text: &[u8]) -> Option<()> {
        self.rest = behind(self.rest, text)?;
        Some(())
    }

    /// Note where bytes end that stand behind their number.
    #[inline]
    fn enter(&mut self) -> Option<()> {
        let (size, rest) = fields::size(self.rest)?;
        self.rest = rest;
        self.scan.ends.push(rest.len().checked_sub(size)?);
        Some(())
    }

    fn varint(&mut self) -> Option<()> {
        let (number, rest) = fields::varint(self.rest)?;
        self.rest = rest;
        let start = self.scan.printed.len();
        self.scan.printed.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        self.printed(start, Kind::Integer, Escapes::None)
    }

    fn sized_text(&mut self, text: &Text) -> Option<()> {
        let start = self.scan.printed.len();
        if self.constant(text.head).is_some() {
            let (size, rest) = fields::size(self.rest)?;
            let (found, rest) = rest.split_at_checked(size)?;
            self.rest = rest;
            let found = simdutf8::basic::from_utf8(found).ok()?;
            let escapes = json::print_token(found.as_bytes(), &mut self.scan.printed);
            return self.printed(start, Kind::Text, escapes);
        }
        if text.empty.is_some_and(|empty| self.constant(empty).is_some()) {
            self.scan.printed.extend_from_slice(b"\"\"");
            return self.printed(start, Kind::Text, Escapes::None);
        }
        self.constant(text.null?)?;
        self.scan.printed.extend_from_slice(b"null");
        self.printed(start, Kind::Null, Escapes::None)
    }

    /// Add a place for what was printed from `start` on.
    #[inline]
    fn printed(&mut self, start: usize, kind: Kind, escapes: Escapes) -> Option<()> {
        let (start, end) = (u32::try_from(start).ok()?, u32::try_from(self.scan.printed.len()).ok()?);
        self.scan.places.push(Some(Place { start, end, kind, escapes, within: Within::Printed }));
        Some(())
    }

    #[inline]
    fn take(&mut self, kinds: Kinds) -> Option<()> {
        let (length, kind, escapes) = json::measure(self.rest)?;
        let start = self.length - self.rest.len();
        self.rest = self.rest.get(length..)?;
        let (start, end) = (start as u32, (start + length) as u32);
        self.scan.places.push(Some(Place { start, end, kind, escapes, within: self.within }));
        kinds.has(kind).then_some(())
    }

    fn members(&mut self, members: &Members) -> Option<()> {
        let mut comma = 0;
        for member in &members.each {
            // The first one has no comma before it.
            match self.text(self.constants.text(member.name).get(1 - comma..)?) {
                Some(()) => {
                    self.take(member.kinds)?;
                    self.constant(members.end)?;
                    comma = 1;
                }
                None => self.scan.places.push(None),
            }
        }
        Some(())
    }

    /// Most producers begin anywhere, and go on in order.
    fn unordered(&mut self, unordered: &Unordered) -> Option<()> {
        let Some(first) = unordered.find(self.rest) else {
            return unordered.members.is_empty().then_some(());
        };
        let round = unordered.round.slice(*unordered.members.get(first)?, unordered.length)?;
        self.text(round).or_else(|| self.in_any_order(unordered))
    }

    fn in_any_order(&mut self, unordered: &Unordered) -> Option<()> {
        let members = &unordered.members;
        self.scan.met.clear();
        self.scan.met.resize(members.len(), false);
        for count in 0..members.len() {
            if count > 0 {
                self.rest = self.rest.strip_prefix(b",")?;
            }
            let place = unordered.find(self.rest)?;
            if std::mem::replace(self.scan.met.get_mut(place)?, true) {
                return None;
            }
            self.rest = self.rest.get(unordered.round.text(members[place]).len()..)?;
        }
        Some(())
    }

    fn length(&mut self, width: usize) -> Option<()> {
        let (number, rest) = self.rest.split_at_checked(width)?;
        let length = number.iter().fold(0, |length, &byte| length << 8 | u64::from(byte));
        self.rest = rest;
        (length == rest.len() as u64).then_some(())
    }
}

/// What stands behind the beginning of a text, which is another text.
#[inline]
pub fn behind<'a>(text: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(start.len())?;
    are_equal(head, start).then_some(rest)
}

/// Whether two texts of the same length are equal. Names of members are short: they cost less here than a call.
#[inline]
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    match one.len() {
        0..4 => one == other,
        4..8 => ends_are_equal::<4>(one, other),
        8..16 => ends_are_equal::<8>(one, other),
        16..=32 => ends_are_equal::<16>(one, other),
        _ => one == other,
    }
}

/// Whether two texts of the same length have the same first and last bytes, so many each.
#[inline]
fn ends_are_equal<const SIZE: usize>(one: &[u8], other: &[u8]) -> bool {
    one.first_chunk::<SIZE>() == other.first_chunk::<SIZE>()
        && one.last_chunk::<SIZE>() == other.last_chunk::<SIZE>()
}
