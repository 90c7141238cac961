//! The source: takes a message apart, as a template says. None means that the message does not fit.

use crate::json;
use crate::ops::{Member, SourceOp, Unordered};
use crate::token::{Kinds, Token};

/// What has a slot; None where a member is missing.
pub type Tokens<'a> = Vec<Option<Token<'a>>>;

/// Append a token for each slot of a part of the message. The whole part is taken.
pub fn scan<'a>(ops: &[SourceOp], part: &'a [u8], tokens: &mut Tokens<'a>) -> Option<()> {
    let mut rest = part;
    for op in ops {
        rest = match op {
            SourceOp::Constant(text) => rest.strip_prefix(&**text)?,
            SourceOp::Take(kinds) => take(rest, *kinds, tokens)?,
            SourceOp::OneOf(texts) => texts.iter().find_map(|text| rest.strip_prefix(&**text))?,
            SourceOp::Members(each, end) => members(each, end, rest, tokens)?,
            SourceOp::Unordered(members) => unordered(members, rest)?,
            SourceOp::Length(width) => length(*width, rest)?,
        };
    }
    rest.is_empty().then_some(())
}

fn take<'a>(text: &'a [u8], kinds: Kinds, tokens: &mut Tokens<'a>) -> Option<&'a [u8]> {
    let (token, rest) = json::token(text)?;
    tokens.push(Some(token));
    kinds.has(token.kind).then_some(rest)
}

fn members<'a>(members: &[Member], end: &[u8], text: &'a [u8], tokens: &mut Tokens<'a>) -> Option<&'a [u8]> {
    let mut rest = text;
    let mut comma = 0;
    for member in members {
        // The first one has no comma before it.
        match rest.strip_prefix(&member.name[1 - comma..]) {
            Some(token) => {
                rest = take(token, member.kinds, tokens)?.strip_prefix(end)?;
                comma = 1;
            }
            None => tokens.push(None),
        }
    }
    Some(rest)
}

fn unordered<'a>(unordered: &Unordered, text: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = text;
    let mut left = vec![true; unordered.members.len()];
    let mut next = unordered.first;
    for count in 0..left.len() {
        if count > 0 {
            rest = rest.strip_prefix(b",")?;
        }
        // Most producers begin anywhere, and go on in order.
        let place = match unordered.members.get(next) {
            Some(member) if rest.starts_with(member) => next,
            _ => place_of(unordered, rest)?,
        };
        if !std::mem::take(&mut left[place]) {
            return None;
        }
        rest = &rest[unordered.members[place].len()..];
        next = unordered.after[place];
    }
    Some(rest)
}

/// Which member a text begins with.
fn place_of(unordered: &Unordered, text: &[u8]) -> Option<usize> {
    let name = &text[..memchr::memchr(b':', text)?];
    let &(start, end) = unordered.places.get(name)?;
    (start..end).find(|&place| text.starts_with(&unordered.members[place]))
}

fn length(width: usize, text: &[u8]) -> Option<&[u8]> {
    let (number, rest) = text.split_at_checked(width)?;
    let length = number.iter().fold(0, |length, &byte| length << 8 | u64::from(byte));
    (length == rest.len() as u64).then_some(rest)
}
