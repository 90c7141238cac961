//! Tokens of a target that stand there as in the message: they are copied together with what is between them.

use crate::conversions::{Read, Write};
use crate::ops::{
    Calculation, Constant, Constants, How, Integer, Source, SourceOp, Span, Step, Steps, Target, TargetOp,
};
use crate::token::{Escapes, Kind, Kinds};

/// A slot of the source: the kinds of its token, and what stands between that and the token of the next slot;
/// None if that differs.
pub struct Taken<'a> {
    kinds: Kinds,
    between: Option<&'a [u8]>,
}

/// The slots of a source.
pub fn taken(source: &Source) -> Vec<Taken<'_>> {
    taken_by(&source.ops, &source.constants)
}

fn taken_by<'a>(ops: &Steps<SourceOp>, constants: &'a Constants) -> Vec<Taken<'a>> {
    let mut found = Vec::new();
    for (index, step) in ops.steps.iter().enumerate() {
        match (&step.op, ops.steps.get(index + 1)) {
            (SourceOp::Take(kinds), Some(next)) if matches!(next.op, SourceOp::Take(_)) => {
                found.push(Taken { kinds: *kinds, between: Some(constants.text(next.before)) });
            }
            (SourceOp::Take(kinds), _) => found.push(Taken { kinds: *kinds, between: None }),
            (SourceOp::Members(members), _) => {
                found.extend(members.each.iter().map(|member| Taken { kinds: member.kinds, between: None }));
            }
            (SourceOp::Varint, _) => {
                let mut kinds = Kinds::default();
                kinds.add(Kind::Integer);
                found.push(Taken { kinds, between: None });
            }
            (SourceOp::Text(text), _) => found.push(Taken { kinds: text.kinds(), between: None }),
            (SourceOp::Repeated(repeated), _) => found.extend(taken_by(&repeated.ops, constants)),
            (SourceOp::Avro(value), _) => {
                found.extend(value.1.iter().map(|&kinds| Taken { kinds, between: None }));
            }
            _ => {}
        }
    }
    found
}

/// The same target, with spans of what stands together in the source.
pub fn with_spans(target: Target, slots: &[Taken<'_>]) -> Target {
    let Target { constants, ops } = target;
    let mut steps = Vec::with_capacity(ops.steps.len());
    let mut rest = ops.steps.into_iter();
    while let Some(step) = rest.next() {
        let more = following(&step, rest.as_slice(), &constants, slots);
        if more == 0 {
            steps.push(step);
        } else {
            steps.extend(span(step, rest.by_ref().take(more), slots));
        }
    }
    steps.shrink_to_fit();
    Target { constants, ops: Steps { steps, end: ops.end } }
}

/// How many steps can have a span with the one before them.
fn following(
    first: &Step<TargetOp>,
    steps: &[Step<TargetOp>],
    constants: &Constants,
    slots: &[Taken<'_>],
) -> usize {
    let Some((start, mut escapes)) = unchanged(&first.op, slots) else { return 0 };
    let stands_there = |(slot, step): &(usize, &Step<TargetOp>)| {
        let text = constants.text(step.before);
        let is_there = slots.get(*slot).is_some_and(|taken| taken.between == Some(text));
        let Some((next, its)) = unchanged(&step.op, slots) else { return false };
        let are_alike = escapes == Escapes::None || its == Escapes::None || escapes == its;
        escapes = escapes.max(its);
        is_there && next == slot + 1 && are_alike
    };
    (start..).zip(steps).take_while(stands_there).count()
}

/// A span of some steps, which stand together in the source.
fn span(
    first: Step<TargetOp>,
    others: impl Iterator<Item = Step<TargetOp>>,
    slots: &[Taken<'_>],
) -> Option<Step<TargetOp>> {
    let (start, _) = unchanged(&first.op, slots)?;
    let mut steps = vec![Step { before: Constant::default(), op: first.op }];
    steps.extend(others);
    let escapes =
        steps.iter().filter_map(|step| unchanged(&step.op, slots)).map(|(_, escapes)| escapes).max()?;
    let last = start + steps.len() - 1;
    let each = Steps { steps, end: Constant::default() };
    let span = Span { first: start, last, escapes, each };
    Some(Step { before: first.before, op: TargetOp::Span(Box::new(span)) })
}

/// The slot of which an op prints the token as it is, and up to which escapes it does so; integers have none.
fn unchanged(op: &TargetOp, slots: &[Taken<'_>]) -> Option<(usize, Escapes)> {
    let has_kinds = |slot: usize, kinds: &[Kind]| slots.get(slot).is_some_and(|of| of.kinds.are_among(kinds));
    let put = match op {
        TargetOp::Put(put) => put,
        TargetOp::Number(sum) => match sum[..] {
            [Calculation { slot: Integer::Slot(slot), ref steps }] if steps.is_empty() => {
                return has_kinds(slot, &[Kind::Integer]).then_some((slot, Escapes::None));
            }
            _ => return None,
        },
        _ => return None,
    };
    let (&[slot], How { read, write, null: Some(null), long_escapes, null_adds: 0, .. }) =
        (put.slots.all(), &*put.how)
    else {
        return None;
    };
    let slot = slot as usize;
    let escapes = match (read, write) {
        _ if **null != *b"null" => return None,
        (None | Some(Read::Int64), None | Some(Write::Int64))
            if has_kinds(slot, &[Kind::Integer, Kind::Null]) =>
        {
            Escapes::None
        }
        (None, None) if *long_escapes => Escapes::Canonical,
        (None, None) => Escapes::Short,
        _ => return None,
    };
    Some((slot, escapes))
}
