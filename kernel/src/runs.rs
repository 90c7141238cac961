//! Runs: rows of a source batch that go straight into a target batch.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::RandomState;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::batches::{Message, SourceBatch, TargetBatch};
use crate::rows::Framing;
use crate::templates::{Permission, Templates, Translated};

/// The bytes of source rows after which a run ends: other tasks get their turn.
const MOST_BYTES: usize = 1 << 20;
/// `relay.model.records.SOURCE_HEADER`.
const SOURCE_HEADER: &[u8] = b"relay.source";

/// The numbers of templates that were used, with how many rows used each.
#[derive(Default)]
pub struct Uses {
    pub counts: Vec<(u64, usize)>,
    /// Where in `counts` each number is.
    places: HashMap<u64, u32, RandomState>,
}

impl Uses {
    /// Count a row; return the place of its number in `counts`.
    pub fn add(&mut self, number: u64) -> u32 {
        let Self { counts, places } = self;
        let place = *places.entry(number).or_insert_with(|| {
            counts.push((number, 0));
            counts.len() as u32 - 1
        });
        counts[place as usize].1 += 1;
        place
    }
}

/// What runs need of their caller.
pub struct Course<'a> {
    pub framing: Option<&'a Framing>,
    /// Bytes of a row's key and value.
    pub most_row_bytes: usize,
    pub mark_prefix: &'a [u8],
}

/// What became of rows (`relay.templates.batches.WrittenRun`).
#[derive(Default)]
pub struct Run {
    pub rows: usize,
    pub refused: Option<u64>,
    pub uses: Uses,
}

/// The batch at a place, if there is one with records.
fn open_batch<'py>(targets: &Bound<'py, PyList>, place: usize) -> Option<PyRefMut<'py, TargetBatch>> {
    let target = targets.get_item(place).ok()?.cast_into::<TargetBatch>().ok()?;
    let target = target.try_borrow_mut().ok()?;
    (!target.is_empty()).then_some(target)
}

impl Run {
    /// Translate rows up to the first that no allowed template fits, or whose messages do not fit into the batch of
    /// their topic.
    pub fn of(
        templates: &mut Templates,
        source: &SourceBatch,
        rows: Range<usize>,
        targets: &Bound<'_, PyList>,
        course: &Course<'_>,
    ) -> Self {
        let (mut run, mut bytes, mut last_offset) = (Self::default(), 0, i64::MIN);
        // The place of the last row's batch; most rows follow one with the same.
        let mut open = None;
        for row in rows {
            if bytes >= MOST_BYTES {
                break;
            }
            let Some((record, size)) = source.record(row) else { break };
            if record.offset < last_offset {
                break;
            }
            last_offset = record.offset;
            let Some(found) = templates.translate_only(&record, course.framing) else {
                templates.undo(&record);
                break;
            };
            let fits = templates.key.len() + templates.value.len() <= course.most_row_bytes;
            let permission = templates.allows(found.number);
            let is_written = fits
                && permission.is_some_and(|Permission { has_tombstone, target }| {
                    if open.as_ref().is_none_or(|&(place, _)| place != target) {
                        open = open_batch(targets, target).map(|batch| (target, batch));
                    }
                    let Some((_, batch)) = &mut open else { return false };
                    let mark = (record.offset, record.time_ms, course.mark_prefix);
                    write(templates, batch, &found, has_tombstone, mark)
                });
            if !is_written {
                if fits && permission.is_none() {
                    run.refused = Some(found.number);
                }
                // The row is translated again, as the next record.
                templates.undo(&record);
                break;
            }
            run.uses.add(found.number);
            run.rows += 1;
            bytes += size;
        }
        run
    }
}

/// Add what was translated last to a batch, all of it or nothing; return whether it fits.
fn write(
    templates: &mut Templates,
    target: &mut TargetBatch,
    found: &Translated,
    has_tombstone: bool,
    (offset, time_ms, prefix): (i64, i64, &[u8]),
) -> bool {
    let before = target.mark();
    templates.mark(prefix, offset);
    let key = found.has_key.then_some(&*templates.key);
    let value = found.has_value.then_some(&*templates.value);
    let headers = [(SOURCE_HEADER, Some(templates.last_mark()))];
    if !target.add(&Message { time_ms, key, value, headers: &headers }).unwrap_or(false) {
        return false;
    }
    if !has_tombstone {
        return true;
    }
    templates.mark_of_tombstone();
    let (key, headers) = (Some(&*templates.key), [(SOURCE_HEADER, Some(templates.last_mark()))]);
    let is_added = target.add(&Message { time_ms, key, value: None, headers: &headers }).unwrap_or(false);
    if !is_added {
        target.undo(before);
    }
    is_added
}
