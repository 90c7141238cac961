//! Records as columns, in the form that Arrow has in memory: one call translates many rows.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::rows::Framing;
use crate::runs::Uses;
use crate::templates::{Record, Templates, Translated};

/// Texts one after the other, and where each begins and the last one ends; a bit for each that is not null.
#[derive(FromPyObject)]
pub struct TextColumn(PyBackedBytes, PyBackedBytes, Option<PyBackedBytes>);

impl TextColumn {
    /// The text of a row, `Some(None)` for null; None for a row that the column does not have.
    fn get(&self, row: usize) -> Option<Option<&[u8]>> {
        let Self(starts, data, valid) = self;
        if let Some(valid) = valid {
            if valid.get(row / 8)? >> (row % 8) & 1 == 0 {
                return Some(None);
            }
        }
        let text = data.get(start_at(starts, row)?..start_at(starts, row + 1)?)?;
        Some(Some(text))
    }
}

fn start_at(starts: &[u8], row: usize) -> Option<usize> {
    let bytes = starts.get(4 * row..)?.first_chunk()?;
    usize::try_from(i32::from_le_bytes(*bytes)).ok()
}

fn number_at(numbers: &[u8], row: usize) -> Option<i64> {
    Some(i64::from_le_bytes(*numbers.get(8 * row..)?.first_chunk()?))
}

/// `relay.templates.columns.RecordColumns`.
#[derive(FromPyObject)]
pub struct RecordColumns(TextColumn, TextColumn, PyBackedBytes, PyBackedBytes);

impl RecordColumns {
    fn record(&self, row: usize) -> Option<Record<'_>> {
        let Self(keys, values, offsets, times) = self;
        Some(Record {
            key: keys.get(row)?,
            value: values.get(row)?,
            offset: number_at(offsets, row)?,
            time_ms: number_at(times, row)?,
        })
    }
}

/// The most bytes of all rows before the last one, whatever a caller allows: the starts of texts are 32-bit offsets.
const MOST_BYTES: usize = 1 << 30;
/// The most bytes of the last row, whose key its tombstone repeats.
const MOST_ROW_BYTES: usize = MOST_BYTES / 2;

/// Where a call begins and ends, and what it may write at most.
pub struct Bounds {
    pub first: usize,
    pub end: usize,
    /// Bytes of all rows, beyond which no further row begins.
    pub most_bytes: usize,
    /// Bytes of a row's key and value.
    pub most_row_bytes: usize,
}

#[derive(Default)]
struct WrittenColumn {
    starts: Vec<u8>,
    data: Vec<u8>,
    valid: Vec<u8>,
    rows: usize,
    has_null: bool,
}

impl WrittenColumn {
    fn push(&mut self, text: Option<&[u8]>) {
        if self.rows % 8 == 0 {
            self.valid.push(0);
        }
        match text {
            Some(text) => {
                self.valid[self.rows / 8] |= 1 << (self.rows % 8);
                self.data.extend_from_slice(text);
            }
            None => self.has_null = true,
        }
        if self.rows == 0 {
            self.starts.extend_from_slice(&[0; 4]);
        }
        self.starts.extend_from_slice(&(self.data.len() as i32).to_le_bytes());
        self.rows += 1;
    }

    fn into_python<'py>(self, py: Python<'py>) -> WrittenText<'py> {
        let valid = self.has_null.then(|| PyBytes::new(py, &self.valid));
        (PyBytes::new(py, &self.starts), PyBytes::new(py, &self.data), valid)
    }
}

type WrittenText<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// `relay.templates.columns.WrittenColumns`.
pub type WrittenColumns<'py> = (
    usize,
    Option<u64>,
    Vec<(u64, usize)>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    WrittenText<'py>,
    WrittenText<'py>,
    WrittenText<'py>,
);

/// What rows became.
#[derive(Default)]
pub struct Written {
    rows: usize,
    refused: Option<u64>,
    uses: Uses,
    /// The place in `uses` of each message, and whether it is a tombstone.
    use_of_message: Vec<u8>,
    are_tombstones: Vec<u8>,
    keys: WrittenColumn,
    values: WrittenColumn,
    marks: WrittenColumn,
}

impl Written {
    /// Translate rows up to the first that no allowed template fits.
    pub fn of(
        templates: &mut Templates,
        framing: Option<&Framing>,
        columns: &RecordColumns,
        bounds: &Bounds,
        prefix: &[u8],
    ) -> Self {
        let mut written = Self::default();
        let mut last_offset = i64::MIN;
        let most_bytes = bounds.most_bytes.min(MOST_BYTES);
        let most_row_bytes = bounds.most_row_bytes.min(MOST_ROW_BYTES);
        for row in bounds.first..bounds.end {
            let bytes = written.keys.data.len() + written.values.data.len();
            if bytes >= most_bytes || written.marks.data.len() >= MOST_BYTES {
                break;
            }
            let Some(record) = columns.record(row) else { break };
            if record.offset < last_offset {
                break;
            }
            last_offset = record.offset;
            let Some(found) = templates.translate_only(&record, framing) else { break };
            if templates.key.len() + templates.value.len() > most_row_bytes {
                break;
            }
            let Some(permission) = templates.allows(found.number) else {
                written.refused = Some(found.number);
                break;
            };
            written.push(templates, &found, prefix, record.offset);
            if permission.has_tombstone {
                written.push_tombstone(templates);
            }
            written.rows += 1;
        }
        written
    }

    fn push(&mut self, templates: &mut Templates, found: &Translated, prefix: &[u8], offset: i64) {
        let place = self.uses.add(found.number);
        self.use_of_message.extend_from_slice(&place.to_le_bytes());
        self.are_tombstones.push(0);
        self.keys.push(found.has_key.then_some(&*templates.key));
        self.values.push(found.has_value.then_some(&*templates.value));
        self.marks.push(Some(templates.mark(prefix, offset)));
    }

    /// Add the tombstone of the row that was pushed last.
    fn push_tombstone(&mut self, templates: &mut Templates) {
        self.use_of_message.extend_from_within(self.use_of_message.len() - 4..);
        self.are_tombstones.push(1);
        self.keys.push(Some(&*templates.key));
        self.values.push(None);
        self.marks.push(Some(templates.mark_of_tombstone()));
    }

    pub fn into_python<'py>(self, py: Python<'py>) -> WrittenColumns<'py> {
        (
            self.rows,
            self.refused,
            self.uses.counts,
            PyBytes::new(py, &self.use_of_message),
            PyBytes::new(py, &self.are_tombstones),
            self.keys.into_python(py),
            self.values.into_python(py),
            self.marks.into_python(py),
        )
    }
}
