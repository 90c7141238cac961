//! Fetching a template's memory ahead.
//!
//! Where messages of many tables come in turn, the processor's caches have none of the templates. A translation
//! would wait for one cache line after the other; lines that are asked for together come together.

use std::hint::black_box;

use crate::ops::{Condition, Constants, Part, SourceOp, Steps, TargetOp, Template, Unordered};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Touch most of the memory that a translation by this template reads.
pub fn fetch(template: &Template) {
    let sources = || [&template.key, &template.value].into_iter().flatten();
    let targets = || template.targets.iter().flat_map(|message| [&message.key, &message.value]).flatten();
    // What no branch depends on comes first: a branch waits for memory.
    let mut read =
        of_lines(&template.conditions, |condition| matches!(condition, Condition::Filled(_)).into());
    read += sources().map(of_part).sum::<usize>() + targets().map(of_part).sum::<usize>();
    read += sources().map(|part| behind_source(&part.ops)).sum::<usize>();
    read += targets().map(|part| behind_target(&part.ops)).sum::<usize>();
    // Keeps the compiler from removing the reads.
    black_box(read);
}

/// Touch a list, an item for each cache line or each item. What is read is small, as it is added up.
#[inline]
fn of_lines<T>(items: &[T], read: impl Fn(&T) -> u8) -> usize {
    let step = const { if size_of::<T>() < LINE { LINE / size_of::<T>() } else { 1 } };
    items.iter().step_by(step).map(|item| usize::from(read(item))).sum()
}

fn of_constants(constants: &Constants) -> usize {
    of_lines(&constants.0, |&byte| byte)
}

fn of_part<Op>(Part { constants, ops }: &Part<Op>) -> usize {
    of_constants(constants) + of_lines(&ops.steps, |step| step.before.start as u8)
}

/// Touch what the ops of a source refer to.
fn behind_source(ops: &Steps<SourceOp>) -> usize {
    let behind = |op: &SourceOp| match op {
        SourceOp::Members(members) => of_lines(&members.each, |member| member.name.start as u8),
        SourceOp::Unordered(unordered) => of_unordered(unordered),
        SourceOp::Repeated(repeated) => {
            of_lines(&repeated.ops.steps, |step| step.before.start as u8) + behind_source(&repeated.ops)
        }
        SourceOp::OneOf(texts) => of_lines(texts, |text| text.start as u8),
        SourceOp::Text(text) => text.head.start as usize & 1,
        SourceOp::Take(_)
        | SourceOp::Length(_)
        | SourceOp::Avro(_)
        | SourceOp::Enter
        | SourceOp::Leave
        | SourceOp::Varint => 0,
    };
    ops.steps.iter().map(|step| behind(&step.op)).sum()
}

fn of_unordered(Unordered { members, names, round, .. }: &Unordered) -> usize {
    of_constants(round)
        + of_lines(members, |member| member.start as u8)
        + of_lines(names.places(), |place| place.0 as u8)
}

/// Touch what the ops of a target refer to.
fn behind_target(ops: &Steps<TargetOp>) -> usize {
    let behind = |op: &TargetOp| match op {
        TargetOp::Changed(members) => of_lines(members, |change| change.name.start as u8),
        TargetOp::Span(span) => usize::from(span.first as u8),
        TargetOp::Choice(choice) => usize::from(choice.small.start as u8),
        TargetOp::Number(sum) => of_lines(sum, |number| number.steps.len() as u8),
        TargetOp::Sized(_, ops) => of_lines(&ops.steps, |step| step.before.start as u8) + behind_target(ops),
        TargetOp::Put(_) | TargetOp::Avro(_) => 0,
    };
    ops.steps.iter().map(|step| behind(&step.op)).sum()
}
