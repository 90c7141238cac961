//! The target: prints what a template says of a message's tokens. None means that the message does not fit.

use std::cell::Cell;

use crate::avro::{self, AvroOp};
use crate::conversions::{self, Read, Write, clock_seconds, local_datetime_micros};
use crate::json::{self, LongEscapes};
use crate::ops::{
    Arithmetic, Bytes, Calculation, Change, Choice, Condition, Constant, Constants, How, Integer, Put, Span,
    Steps, Target, TargetOp,
};
use crate::scan::Scan;
use crate::templates::Record;
use crate::token::{Escapes, Kind, Place, Token, Within};

/// What a target is made of: the record, and where its tokens are.
pub struct Slots<'a> {
    pub record: &'a Record<'a>,
    pub places: &'a [Option<Place>],
    /// JSON printed from Avro values; tokens `Within::Printed` are in it.
    pub printed: &'a [u8],
    /// Scratch buffer: JSON that is then written as Avro.
    pub text: Cell<Vec<u8>>,
    /// What values of which something is lost have added to the template's number.
    pub added: Cell<u64>,
}

impl<'a> Slots<'a> {
    pub fn new(record: &'a Record<'a>, scan: &'a Scan) -> Self {
        Self {
            record,
            places: &scan.places,
            printed: &scan.printed,
            text: Cell::default(),
            added: Cell::new(0),
        }
    }
}

/// Whether a token is one of those that msgspec prints so; strings in any spelling.
fn is_among(token: &Token<'_>, texts: &[Bytes]) -> Option<bool> {
    if token.escapes != Escapes::Other {
        return Some(texts.iter().any(|text| **text == *token.text));
    }
    // An escape has at most six bytes for one.
    let may_be = |text: &Bytes| text.len() <= token.text.len() && token.text.len() <= 6 * text.len();
    if !texts.iter().any(may_be) {
        return Some(false);
    }
    let mut plain = Vec::with_capacity(token.text.len());
    json::print_string(token, LongEscapes(false), &mut plain)?;
    Some(texts.iter().any(|text| **text == *plain))
}

impl<'a> Slots<'a> {
    pub fn holds(&self, condition: &Condition) -> Option<bool> {
        Some(match condition {
            Condition::Within(number, floor, end) => {
                let value = self.calculated(number)?;
                *floor < value && value < *end
            }
            Condition::Equal(one, other, is_equal) => (self.sum(one)? == self.sum(other)?) == *is_equal,
            Condition::Same(slot, other) => match (self.token(*slot), self.token(*other)) {
                (None, _) => true,
                (Some(token), Some(other)) => token.text == other.text,
                (Some(_), None) => false,
            },
            Condition::Fits(put) => match self.first(put.slots.all()) {
                Some(token) if token.kind != Kind::Null => {
                    self.print_token(&token, &put.how, &mut Vec::new()).is_some()
                }
                Some(_) => self.add(put.how.null_adds).is_some(),
                None => true,
            },
            Condition::Filled(slot) => {
                self.token(*slot).is_some_and(|token| !matches!(token.text, b"null" | b"\"\""))
            }
            Condition::Among { slots, tokens, is_one } => {
                for slot in slots {
                    let is_among = match self.token(*slot) {
                        Some(token) => is_among(&token, tokens)?,
                        None => false,
                    };
                    if is_among != *is_one {
                        return Some(false);
                    }
                }
                true
            }
            Condition::Differ(pairs) => {
                // All are printed, whatever the first of them are.
                let mut differ = false;
                for (one, other) in pairs {
                    differ |= self.differ(one, other)?;
                }
                differ
            }
        })
    }

    pub fn print(&self, target: &Target, out: &mut Vec<u8>) -> Option<()> {
        self.print_steps(&target.ops, &target.constants, out)
    }

    fn print_steps(&self, ops: &Steps<TargetOp>, constants: &Constants, out: &mut Vec<u8>) -> Option<()> {
        for step in &ops.steps {
            out.extend_from_slice(constants.text(step.before));
            match &step.op {
                TargetOp::Put(put) => self.put(put, out)?,
                TargetOp::Span(span) => self.span(span, constants, out)?,
                TargetOp::Number(sum) => self.number(sum, out)?,
                TargetOp::Changed(members) => self.changed(members, constants, out)?,
                TargetOp::Choice(choice) => out.extend_from_slice(constants.text(self.chosen(choice)?)),
                TargetOp::Sized(width, ops) => self.sized(*width, ops, constants, out)?,
                TargetOp::Avro(value) => self.avro(&value.0, &value.1, constants, out)?,
            }
        }
        out.extend_from_slice(constants.text(ops.end));
        Some(())
    }

    /// Print what an op prints, in Avro.
    fn avro(&self, avro: &AvroOp, op: &TargetOp, constants: &Constants, out: &mut Vec<u8>) -> Option<()> {
        match op {
            TargetOp::Put(put) => {
                let token = self.first(put.slots.all())?;
                if is_unchanged(&token, &put.how) {
                    self.add(if token.kind == Kind::Null { put.how.null_adds } else { 0 })?;
                    return avro::write_token(avro, &token, out);
                }
                self.avro_of(avro, out, |json| self.print_token(&token, &put.how, json))
            }
            TargetOp::Number(sum) => self.avro_of(avro, out, |json| self.number(sum, json)),
            TargetOp::Choice(choice) => avro::write(avro, constants.text(self.chosen(choice)?), out),
            _ => None,
        }
    }

    /// Append the Avro of the JSON that is printed.
    fn avro_of(
        &self,
        avro: &AvroOp,
        out: &mut Vec<u8>,
        print: impl Fn(&mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        let mut json = self.text.take();
        json.clear();
        let written = print(&mut json).and_then(|()| avro::write(avro, &json, out));
        self.text.set(json);
        written
    }

    #[inline]
    fn part(&self, place: &Place) -> &'a [u8] {
        match place.within {
            Within::Key => self.record.key.unwrap_or_default(),
            Within::Value => self.record.value.unwrap_or_default(),
            Within::Printed => self.printed,
        }
    }

    #[inline]
    fn token(&self, slot: usize) -> Option<Token<'a>> {
        let place = self.places.get(slot)?.as_ref()?;
        Some(place.token(self.part(place)))
    }

    #[inline]
    fn first(&self, slots: &[u32]) -> Option<Token<'a>> {
        slots.iter().find_map(|&slot| self.token(slot as usize))
    }

    fn put(&self, put: &Put, out: &mut Vec<u8>) -> Option<()> {
        self.print_token(&self.first(put.slots.all())?, &put.how, out)
    }

    fn add(&self, more: u64) -> Option<()> {
        self.added.set(self.added.get().checked_add(more)?);
        Some(())
    }

    fn print_token(&self, token: &Token<'_>, how: &How, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        if print(token, how, out).is_some() {
            return if token.kind == Kind::Null { self.add(how.null_adds) } else { Some(()) };
        }
        let lossy = how.lossy.as_ref().filter(|_| token.kind != Kind::Null)?;
        out.truncate(start);
        let escapes = LongEscapes(how.long_escapes);
        conversions::convert(how.read.as_ref(), Some(lossy), token, escapes, out)?;
        self.add(how.adds)
    }

    /// Print what stands between two tokens of the message, and both, if all tokens there stay as they are.
    fn span(&self, span: &Span, constants: &Constants, out: &mut Vec<u8>) -> Option<()> {
        let places = self.places.get(span.first..=span.last)?;
        let as_they_are =
            |place: &Option<Place>| place.as_ref().is_some_and(|place| place.escapes <= span.escapes);
        if !places.iter().all(as_they_are) {
            return self.print_steps(&span.each, constants, out);
        }
        let (Some(Some(first)), Some(Some(last))) = (places.first(), places.last()) else { return None };
        out.extend_from_slice(self.part(first).get(first.start as usize..last.end as usize)?);
        Some(())
    }

    fn number(&self, sum: &[Calculation], out: &mut Vec<u8>) -> Option<()> {
        if let [Calculation { slot: Integer::Slot(slot), steps }] = sum {
            let text = match steps[..] {
                [] => self.integer(*slot),
                [Arithmetic::DropDigits(count)] => shortened(self.integer(*slot)?, count),
                _ => None,
            };
            if let Some(text) = text {
                out.extend_from_slice(text);
                return Some(());
            }
        }
        json::print_integer(self.sum(sum)?, out)
    }

    fn sum(&self, sum: &[Calculation]) -> Option<i128> {
        sum.iter().try_fold(0, |total: i128, number| total.checked_add(self.calculated(number)?))
    }

    fn integer(&self, slot: usize) -> Option<&'a [u8]> {
        self.token(slot).filter(|token| token.kind == Kind::Integer).map(|token| token.text)
    }

    fn calculated(&self, number: &Calculation) -> Option<i128> {
        if let Some(short) = self.start(number.slot) {
            let result = number.steps.iter().try_fold(short, short_step);
            if let Some(result) = result {
                return Some(i128::from(result));
            }
        }
        let start = match number.slot {
            Integer::Offset => i128::from(self.record.offset),
            Integer::TimeMs => i128::from(self.record.time_ms),
            Integer::Slot(slot) => json::integer(self.integer(slot)?)?,
            Integer::Datetime { slot, ahead } => i128::from(self.local_datetime(slot, ahead)?),
        };
        number.steps.iter().try_fold(start, step)
    }

    /// What a calculation begins with, if it is within 64 bits with sign.
    #[inline]
    fn start(&self, slot: Integer) -> Option<i64> {
        match slot {
            Integer::Offset => Some(self.record.offset),
            Integer::TimeMs => Some(self.record.time_ms),
            Integer::Slot(slot) => json::short_integer(self.integer(slot)?),
            Integer::Datetime { slot, ahead } => self.local_datetime(slot, ahead),
        }
    }

    fn local_datetime(&self, slot: usize, ahead: i64) -> Option<i64> {
        let token = self.token(slot).filter(|token| token.kind == Kind::Text)?;
        local_datetime_micros(token.inside(), ahead)
    }

    fn changed(&self, members: &[Change], constants: &Constants, out: &mut Vec<u8>) -> Option<()> {
        let mut comma = false;
        for Change { name, old, new, same } in members {
            let Some(old_token) = self.first(old.slots.all()) else { continue };
            let new_token = self.first(new.slots.all())?;
            if *same && old_token.text == new_token.text {
                continue;
            }
            let start = out.len();
            if comma {
                out.push(b',');
            }
            out.extend_from_slice(constants.text(*name));
            let old_start = out.len();
            self.print_token(&old_token, &old.how, out)?;
            let new_start = out.len();
            self.print_token(&new_token, &new.how, out)?;
            let changed = out[old_start..new_start] != out[new_start..];
            out.truncate(if changed { new_start } else { start });
            comma |= changed;
        }
        Some(())
    }

    fn differ(&self, one: &Put, other: &Put) -> Option<bool> {
        let (token, against) = (self.first(one.slots.all())?, self.first(other.slots.all())?);
        if one.how == other.how && token.text == against.text {
            return Some(false);
        }
        let (mut text, mut other_text) = (Vec::new(), Vec::new());
        self.print_token(&token, &one.how, &mut text)?;
        self.print_token(&against, &other.how, &mut other_text)?;
        Some(text != other_text)
    }

    fn chosen(&self, choice: &Choice) -> Option<Constant> {
        let token = self.first(choice.slots.all())?;
        let Some(least) = choice.least else {
            return Some(if token.kind == Kind::Null { choice.null } else { choice.small });
        };
        let number = match token.kind {
            Kind::Null => return Some(choice.null),
            Kind::Text => json::integer(&json::meaning(&token)?)?,
            _ => json::integer(token.text)?,
        };
        Some(if number >= least { choice.large } else { choice.small })
    }

    fn sized(
        &self,
        width: usize,
        ops: &Steps<TargetOp>,
        constants: &Constants,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let start = out.len();
        out.resize(start + width, 0);
        self.print_steps(ops, constants, out)?;
        let size = (out.len() - start - width) as u64;
        let bytes = size.to_be_bytes();
        let (beyond, number) = bytes.split_at(bytes.len() - width);
        out[start..start + width].copy_from_slice(number);
        beyond.iter().all(|&byte| byte == 0).then_some(())
    }
}

/// Whether a token is printed as it is, or as another one of the same meaning.
fn is_unchanged(token: &Token<'_>, how: &How) -> bool {
    match (&how.read, &how.write) {
        _ if token.kind == Kind::Null => how.null.as_deref() == Some(b"null"),
        (None, None) => true,
        (None | Some(Read::Int64), None | Some(Write::Int64)) => token.kind == Kind::Integer,
        (None, Some(Write::Text)) => token.kind == Kind::Text,
        _ => false,
    }
}

/// An integer's digits without the last ones; None if it is below 0, or none are left.
fn shortened(digits: &[u8], count: u8) -> Option<&[u8]> {
    let left = digits.len().checked_sub(usize::from(count))?;
    (left > 0 && digits[0] != b'-').then(|| &digits[..left])
}

/// A step within 64 bits, which cost a tenth; None if these are too few.
#[inline]
fn short_step(number: i64, step: &Arithmetic) -> Option<i64> {
    match *step {
        Arithmetic::Add(operand) => number.checked_add(i64::try_from(operand).ok()?),
        Arithmetic::Subtract(operand) => number.checked_sub(i64::try_from(operand).ok()?),
        Arithmetic::Multiply(operand) => number.checked_mul(i64::try_from(operand).ok()?),
        // What is not below 0 is rounded down alike by all.
        Arithmetic::Divide(operand @ 1..) if number >= 0 => number.checked_div(i64::try_from(operand).ok()?),
        Arithmetic::DropDigits(count) if number >= 0 => Some(number / 10_i64.pow(u32::from(count))),
        Arithmetic::Remainder(operand @ 1..) if number >= 0 => {
            number.checked_rem(i64::try_from(operand).ok()?)
        }
        Arithmetic::Right(bits) => number.checked_shr(bits),
        Arithmetic::Clock(ahead) => clock_seconds(number, ahead),
        _ => None,
    }
}

fn step(number: i128, step: &Arithmetic) -> Option<i128> {
    match *step {
        Arithmetic::Add(operand) => number.checked_add(operand),
        Arithmetic::Subtract(operand) => number.checked_sub(operand),
        Arithmetic::Multiply(operand) => number.checked_mul(operand),
        Arithmetic::Divide(operand) => {
            let quotient = number.checked_div(operand)?;
            Some(quotient - i128::from(floored(number, operand)))
        }
        Arithmetic::Remainder(operand) => {
            let remainder = number.wrapping_rem(operand);
            Some(if floored(number, operand) { remainder + operand } else { remainder })
        }
        Arithmetic::DropDigits(count) => Some(number.div_euclid(10_i128.pow(u32::from(count)))),
        Arithmetic::Left(bits) => {
            let shifted = number.checked_shl(bits)?;
            (shifted >> bits == number).then_some(shifted)
        }
        Arithmetic::Right(bits) => number.checked_shr(bits),
        Arithmetic::Clock(ahead) => clock_seconds(i64::try_from(number).ok()?, ahead).map(i128::from),
        Arithmetic::Datetime(_) => None,
    }
}

/// Whether a quotient is rounded down, away from zero.
fn floored(number: i128, operand: i128) -> bool {
    number.wrapping_rem(operand) != 0 && (number < 0) != (operand < 0)
}

fn print(token: &Token<'_>, how: &How, out: &mut Vec<u8>) -> Option<()> {
    let escapes = LongEscapes(how.long_escapes);
    if token.kind == Kind::Null {
        out.extend_from_slice(how.null.as_ref()?);
        return Some(());
    }
    if how.read.is_none() && how.write.is_none() {
        if token.kind == Kind::Text {
            return json::print_string(token, escapes, out);
        }
        out.extend_from_slice(token.text);
        return Some(());
    }
    conversions::convert(how.read.as_ref(), how.write.as_ref(), token, escapes, out)
}
