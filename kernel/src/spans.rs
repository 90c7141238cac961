//! Tokens of a target that stand there as in the message: they are copied together with what is between them.

use crate::ops::{Bytes, How, Source, SourceOp, Span, Target, TargetOp, TargetStep};
use crate::token::Escapes;

/// What the source has between the token of each slot and that of the next one; None if that differs.
pub fn between(source: &Source) -> Vec<Option<Bytes>> {
    let mut found = Vec::new();
    for (index, step) in source.steps.iter().enumerate() {
        match (&step.op, source.steps.get(index + 1)) {
            (SourceOp::Take(_), Some(next)) if matches!(next.op, SourceOp::Take(_)) => {
                found.push(Some(next.text.clone()));
            }
            (SourceOp::Take(_), _) => found.push(None),
            (SourceOp::Members(members), _) => found.extend(members.each.iter().map(|_| None)),
            (SourceOp::Repeated(repeated), _) => found.extend(self::between(&repeated.ops)),
            _ => {}
        }
    }
    found
}

/// The same target, with spans of what stands together in the source.
pub fn with_spans(target: Target, between: &[Option<Bytes>]) -> Target {
    let mut steps = Vec::with_capacity(target.steps.len());
    let mut rest = target.steps.into_iter();
    while let Some(step) = rest.next() {
        let more = following(&step, rest.as_slice(), between);
        if more == 0 {
            steps.push(step);
        } else {
            steps.extend(span(step, rest.by_ref().take(more)));
        }
    }
    steps.shrink_to_fit();
    Target { steps, end: target.end }
}

/// How many steps can have a span with the one before them.
fn following(first: &TargetStep, steps: &[TargetStep], between: &[Option<Bytes>]) -> usize {
    let Some((start, escapes)) = unchanged(&first.op) else { return 0 };
    let stands_there = |(slot, step): &(usize, &TargetStep)| {
        let is_there = between.get(*slot).is_some_and(|found| found.as_ref() == Some(&step.text));
        is_there && unchanged(&step.op) == Some((slot + 1, escapes))
    };
    (start..).zip(steps).take_while(stands_there).count()
}

/// A span of some steps, which stand together in the source.
fn span(first: TargetStep, others: impl Iterator<Item = TargetStep>) -> Option<TargetStep> {
    let (start, escapes) = unchanged(&first.op)?;
    let mut steps = vec![TargetStep { text: Bytes::default(), op: first.op }];
    steps.extend(others);
    let last = start + steps.len() - 1;
    let each = Target { steps, end: Bytes::default() };
    let span = Span { first: start, last, escapes, each };
    Some(TargetStep { text: first.text, op: TargetOp::Span(Box::new(span)) })
}

/// The slot of which an op prints the token as it is, and up to which escapes it does so.
fn unchanged(op: &TargetOp) -> Option<(usize, Escapes)> {
    let TargetOp::Put(put) = op else { return None };
    let (&[slot], How { read: None, write: None, null: Some(null), long_escapes, null_adds: 0, .. }) =
        (put.slots.all(), &*put.how)
    else {
        return None;
    };
    let escapes = if *long_escapes { Escapes::Canonical } else { Escapes::Short };
    (**null == *b"null").then_some((slot, escapes))
}
