//! Tokens of a target that stand there as in the message: they are copied together with what is between them.

use crate::ops::{Bytes, How, SourceOp, Span, TargetOp};
use crate::token::Escapes;

/// What the source has between the token of each slot and that of the next one; None if that differs.
pub fn between(ops: &[SourceOp]) -> Vec<Option<Bytes>> {
    let mut found = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        match (op, ops.get(index + 1), ops.get(index + 2)) {
            (SourceOp::Take(_), Some(SourceOp::Constant(text)), Some(SourceOp::Take(_))) => {
                found.push(Some(text.clone()));
            }
            (SourceOp::Take(_), ..) => found.push(None),
            (SourceOp::Members(members), ..) => found.extend(members.each.iter().map(|_| None)),
            _ => {}
        }
    }
    found
}

/// The same ops, those that stand together in the source as spans.
pub fn with_spans(ops: Vec<TargetOp>, between: &[Option<Bytes>]) -> Vec<TargetOp> {
    let mut found = Vec::with_capacity(ops.len());
    let mut rest = ops.into_iter();
    while let Some((first, last)) = run(rest.as_slice(), between) {
        let together: Vec<TargetOp> = rest.by_ref().take(1 + 2 * (last - first)).collect();
        let escapes = together.iter().filter_map(unchanged).map(|(_, escapes)| escapes).min();
        match escapes {
            Some(escapes) if last > first => {
                found.push(TargetOp::Span(Box::new(Span { first, last, escapes, ops: together })));
            }
            _ => found.extend(together),
        }
    }
    found.shrink_to_fit();
    found
}

/// The first and the last slot of the tokens at the beginning that a span can have; the same slot if it can
/// have no more than one op. None if there are no ops.
fn run(ops: &[TargetOp], between: &[Option<Bytes>]) -> Option<(usize, usize)> {
    let (first_op, mut rest) = ops.split_first()?;
    let Some((first, escapes)) = unchanged(first_op) else { return Some((0, 0)) };
    let mut last = first;
    while let [TargetOp::Constant(text), put, behind @ ..] = rest {
        let is_there = between.get(last).is_some_and(|found| found.as_ref() == Some(text));
        if !is_there || unchanged(put) != Some((last + 1, escapes)) {
            break;
        }
        last += 1;
        rest = behind;
    }
    Some((first, last))
}

/// The slot of which an op prints the token as it is, and up to which escapes it does so.
fn unchanged(op: &TargetOp) -> Option<(usize, Escapes)> {
    let TargetOp::Put(put) = op else { return None };
    let (&[slot], How { read: None, write: None, null: Some(null), long_escapes }) =
        (put.slots.all(), &*put.how)
    else {
        return None;
    };
    let escapes = if *long_escapes { Escapes::Canonical } else { Escapes::Short };
    (**null == *b"null").then_some((slot, escapes))
}
