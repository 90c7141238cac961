//! The target: prints what a template says of a message's tokens. None means that the message does not fit.

use crate::conversions;
use crate::json::{self, LongEscapes};
use crate::ops::{Bytes, Calculation, Change, Choice, Condition, How, Integer, Put, Step, TargetOp};
use crate::scan::Tokens;
use crate::token::{Escapes, Kind, Token};

/// What a target is made of: the tokens of a message, and what else is known of the record.
pub struct Slots<'a> {
    pub tokens: Tokens<'a>,
    pub offset: i64,
    pub time_ms: i64,
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
            Condition::Same(slot, other) => match (&self.tokens[*slot], &self.tokens[*other]) {
                (None, _) => true,
                (Some(token), Some(other)) => token.text == other.text,
                (Some(_), None) => false,
            },
            Condition::Fits(put) => match self.first(&put.slots) {
                Some(token) if token.kind != Kind::Null => print(token, &put.how, &mut Vec::new()).is_some(),
                _ => true,
            },
            Condition::Filled(slot) => {
                self.tokens[*slot].as_ref().is_some_and(|token| !matches!(token.text, b"null" | b"\"\""))
            }
            Condition::Among { slot, tokens, is_one } => match &self.tokens[*slot] {
                None => !is_one,
                Some(token) => is_among(token, tokens)? == *is_one,
            },
        })
    }

    pub fn print(&self, ops: &[TargetOp], out: &mut Vec<u8>) -> Option<()> {
        ops.iter().try_for_each(|op| self.op(op, out))
    }

    fn op(&self, op: &TargetOp, out: &mut Vec<u8>) -> Option<()> {
        match op {
            TargetOp::Constant(text) => out.extend_from_slice(text),
            TargetOp::Put(put) => self.put(put, out)?,
            TargetOp::Number(sum) => self.number(sum, out)?,
            TargetOp::Changed(members) => self.changed(members, out)?,
            TargetOp::Choice(choice) => out.extend_from_slice(self.chosen(choice)?),
            TargetOp::Sized(width, ops) => self.sized(*width, ops, out)?,
        }
        Some(())
    }

    fn first(&self, slots: &[usize]) -> Option<&Token<'a>> {
        slots.iter().find_map(|&slot| self.tokens[slot].as_ref())
    }

    fn put(&self, put: &Put, out: &mut Vec<u8>) -> Option<()> {
        print(self.first(&put.slots)?, &put.how, out)
    }

    fn number(&self, sum: &[Calculation], out: &mut Vec<u8>) -> Option<()> {
        if let [Calculation { slot: Integer::Slot(slot), steps }] = sum {
            if steps.is_empty() {
                let token = self.tokens[*slot].as_ref().filter(|token| token.kind == Kind::Integer)?;
                out.extend_from_slice(token.text);
                return Some(());
            }
        }
        let add = |total: i128, number| total.checked_add(self.calculated(number)?);
        json::print_integer(sum.iter().try_fold(0, add)?, out)
    }

    fn calculated(&self, number: &Calculation) -> Option<i128> {
        let start = match number.slot {
            Integer::Offset => i128::from(self.offset),
            Integer::TimeMs => i128::from(self.time_ms),
            Integer::Slot(slot) => {
                let token = self.tokens[slot].as_ref().filter(|token| token.kind == Kind::Integer)?;
                json::integer(token.text)?
            }
        };
        number.steps.iter().try_fold(start, step)
    }

    fn changed(&self, members: &[Change], out: &mut Vec<u8>) -> Option<()> {
        let mut comma = false;
        for Change { name, old, new, same } in members {
            let Some(old_token) = self.first(&old.slots) else { continue };
            let new_token = self.first(&new.slots)?;
            if *same && old_token.text == new_token.text {
                continue;
            }
            let start = out.len();
            if comma {
                out.push(b',');
            }
            out.extend_from_slice(name);
            let old_start = out.len();
            print(old_token, &old.how, out)?;
            let new_start = out.len();
            print(new_token, &new.how, out)?;
            let changed = out[old_start..new_start] != out[new_start..];
            out.truncate(if changed { new_start } else { start });
            comma |= changed;
        }
        Some(())
    }

    fn chosen<'c>(&self, choice: &'c Choice) -> Option<&'c [u8]> {
        let token = self.first(&choice.slots)?;
        let Some(least) = choice.least else {
            return Some(if token.kind == Kind::Null { &choice.null } else { &choice.small });
        };
        let number = match token.kind {
            Kind::Null => return Some(&choice.null),
            Kind::Text => json::integer(&json::meaning(token)?)?,
            _ => json::integer(token.text)?,
        };
        Some(if number >= least { &choice.large } else { &choice.small })
    }

    fn sized(&self, width: usize, ops: &[TargetOp], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        out.resize(start + width, 0);
        self.print(ops, out)?;
        let size = (out.len() - start - width) as u64;
        let bytes = size.to_be_bytes();
        let (beyond, number) = bytes.split_at(bytes.len() - width);
        out[start..start + width].copy_from_slice(number);
        beyond.iter().all(|&byte| byte == 0).then_some(())
    }
}

fn step(number: i128, step: &Step) -> Option<i128> {
    match *step {
        Step::Add(operand) => number.checked_add(operand),
        Step::Subtract(operand) => number.checked_sub(operand),
        Step::Multiply(operand) => number.checked_mul(operand),
        Step::Divide(operand) => {
            let quotient = number.checked_div(operand)?;
            Some(quotient - i128::from(floored(number, operand)))
        }
        Step::Remainder(operand) => {
            let remainder = number.wrapping_rem(operand);
            Some(if floored(number, operand) { remainder + operand } else { remainder })
        }
        Step::Left(bits) => {
            let shifted = number.checked_shl(bits)?;
            (shifted >> bits == number).then_some(shifted)
        }
        Step::Right(bits) => number.checked_shr(bits),
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
