//! The source: takes a message apart, as a template says. None means that the message does not fit.

use crate::json;
use crate::ops::{Member, SourceOp, Unordered};
use crate::token::{Kinds, Place, Places};

/// What is found in a message, and room to work in; kept for the next message.
#[derive(Default)]
pub struct Scan {
    /// By slot.
    pub places: Places,
    /// Which members of an object have come.
    met: Vec<bool>,
}

impl Scan {
    /// Append a place for each slot of a part of the message. The whole part is taken.
    pub fn part(&mut self, ops: &[SourceOp], part: &[u8], in_value: bool) -> Option<()> {
        u32::try_from(part.len()).ok()?;
        let mut scanner = Scanner { scan: self, part, at: 0, in_value };
        for op in ops {
            match op {
                SourceOp::Constant(text) => scanner.constant(text)?,
                SourceOp::Take(kinds) => scanner.take(*kinds)?,
                SourceOp::OneOf(texts) => texts.iter().find_map(|text| scanner.constant(text))?,
                SourceOp::Members(members) => scanner.members(&members.each, &members.end)?,
                SourceOp::Unordered(members) => scanner.unordered(members)?,
                SourceOp::Length(width) => scanner.length(*width)?,
            }
        }
        (scanner.at == part.len()).then_some(())
    }
}

struct Scanner<'a, 's> {
    scan: &'s mut Scan,
    part: &'a [u8],
    /// Up to where the part is taken.
    at: usize,
    in_value: bool,
}

impl<'a> Scanner<'a, '_> {
    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.part.get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn constant(&mut self, text: &[u8]) -> Option<()> {
        begins(self.rest(), text).then(|| self.at += text.len())
    }

    #[inline]
    fn take(&mut self, kinds: Kinds) -> Option<()> {
        let (length, kind, escapes) = json::measure(self.rest())?;
        let start = self.at;
        self.at += length;
        let (start, end) = (start as u32, self.at as u32);
        self.scan.places.push(Some(Place { start, end, kind, escapes, in_value: self.in_value }));
        kinds.has(kind).then_some(())
    }

    fn members(&mut self, members: &[Member], end: &[u8]) -> Option<()> {
        let mut comma = 0;
        for member in members {
            // The first one has no comma before it.
            match self.constant(member.name.get(1 - comma..)?) {
                Some(()) => {
                    self.take(member.kinds)?;
                    self.constant(end)?;
                    comma = 1;
                }
                None => self.scan.places.push(None),
            }
        }
        Some(())
    }

    fn unordered(&mut self, unordered: &Unordered) -> Option<()> {
        let count = unordered.members.len();
        self.scan.met.clear();
        self.scan.met.resize(count, false);
        let mut next = unordered.first as usize;
        for member in 0..count {
            if member > 0 {
                self.constant(b",")?;
            }
            // Most producers begin anywhere, and go on in order.
            let place = match unordered.members.get(next) {
                Some(member) if begins(self.rest(), member) => next,
                _ => unordered.names.find(&unordered.members, self.rest())?,
            };
            if std::mem::replace(self.scan.met.get_mut(place)?, true) {
                return None;
            }
            self.at += unordered.members[place].len();
            next = unordered.after[place] as usize;
        }
        Some(())
    }

    fn length(&mut self, width: usize) -> Option<()> {
        let (number, rest) = self.rest().split_at_checked(width)?;
        let length = number.iter().fold(0, |length, &byte| length << 8 | u64::from(byte));
        self.at += width;
        (length == rest.len() as u64).then_some(())
    }
}

/// Whether a text begins with another one. Names of members are short: they cost less here than a call.
#[inline]
pub fn begins(text: &[u8], start: &[u8]) -> bool {
    let Some(head) = text.get(..start.len()) else { return false };
    match start.len() {
        0..4 => head == start,
        4..8 => ends_are_equal::<4>(head, start),
        8..16 => ends_are_equal::<8>(head, start),
        16..=32 => ends_are_equal::<16>(head, start),
        _ => head == start,
    }
}

/// Whether two texts of the same length have the same first and last bytes, so many each.
#[inline]
fn ends_are_equal<const SIZE: usize>(one: &[u8], other: &[u8]) -> bool {
    one.first_chunk::<SIZE>() == other.first_chunk::<SIZE>()
        && one.last_chunk::<SIZE>() == other.last_chunk::<SIZE>()
}
