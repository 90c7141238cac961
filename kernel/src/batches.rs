//! Record batches of Kafka's message format 2: the records of a source batch, and a target batch that takes records.
//!
//! `relay/templates/batches.py` has the interface.

use std::collections::TryReserveError;
use std::ops::Range;

use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::templates::Record;

/// The bytes of a batch's header, and of its parts.
const HEADER: usize = 61;
const LENGTH_AT: usize = 8;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAGIC: u8 = 2;
/// The smallest record: a length, attributes, two deltas, no key, no value, and a number of headers.
const SMALLEST: usize = 7;
/// A record's time that is not known.
const NO_TIME: i64 = -1;

/// A signed number of 1 to 10 bytes, and the bytes after it.
#[inline]
fn varint(data: &[u8], at: &mut usize) -> Option<i64> {
    let (mut bits, mut shift) = (0_u64, 0);
    loop {
        let byte = *data.get(*at)?;
        *at += 1;
        bits |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((bits >> 1) as i64 ^ -((bits & 1) as i64));
        }
        shift += 7;
        (shift < 64).then_some(())?;
    }
}

#[inline]
fn push_varint(number: i64, out: &mut Vec<u8>) {
    let mut bits = ((number << 1) ^ (number >> 63)) as u64;
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

#[inline]
fn varint_size(number: i64) -> usize {
    let bits = ((number << 1) ^ (number >> 63)) as u64 | 1;
    (64 - bits.leading_zeros() as usize).div_ceil(7)
}

/// A text after its length, `Some(None)` for null; None if it is cut off.
#[inline]
fn sized(data: &[u8], at: &mut usize) -> Option<Option<Range<usize>>> {
    let length = varint(data, at)?;
    if length < 0 {
        return Some(None);
    }
    let start = *at;
    *at = start.checked_add(usize::try_from(length).ok()?)?;
    (*at <= data.len()).then_some(Some(start..*at))
}

/// A record in the text of its batch.
struct Found {
    time_delta: i64,
    offset_delta: i64,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    /// How many headers there are, and where they begin.
    headers: usize,
    headers_at: usize,
    end: usize,
}

impl Found {
    /// The record that begins at a place; None if it is not complete. Headers and the end are for `check` to look at.
    #[inline]
    fn at(data: &[u8], mut at: usize) -> Option<Self> {
        let length = usize::try_from(varint(data, &mut at)?).ok()?;
        let end = at.checked_add(length).filter(|&end| end <= data.len())?;
        varint(data, &mut at)?; // attributes, which have no meaning
        let (time_delta, offset_delta) = (varint(data, &mut at)?, varint(data, &mut at)?);
        let (key, value) = (sized(data, &mut at)?, sized(data, &mut at)?);
        let headers = usize::try_from(varint(data, &mut at)?).ok()?;
        Some(Self { time_delta, offset_delta, key, value, headers, headers_at: at, end })
    }

    /// Whether the headers are complete, and end where the record does.
    fn check(&self, data: &[u8]) -> Option<()> {
        let mut at = self.headers_at;
        for _ in 0..self.headers {
            sized(data, &mut at)??;
            sized(data, &mut at)?;
        }
        (at == self.end).then_some(())
    }

    fn size(&self) -> usize {
        self.key.as_ref().map_or(0, Range::len) + self.value.as_ref().map_or(0, Range::len)
    }

    fn headers<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
        if self.headers == 0 {
            return Ok(PyTuple::empty(py));
        }
        let mut at = self.headers_at;
        let mut headers = Vec::new();
        for _ in 0..self.headers {
            let (Some(Some(name)), Some(value)) = (sized(data, &mut at), sized(data, &mut at)) else { break };
            let name = PyString::new(py, &String::from_utf8_lossy(&data[name]));
            headers.push((name, value.map(|value| PyBytes::new(py, &data[value]))));
        }
        PyTuple::new(py, headers)
    }
}

/// The records of a batch, which were looked through once (`relay.templates.batches.SourceBatch`).
#[pyclass(module = "relay_cdc_kernel", frozen)]
pub struct SourceBatch {
    text: PyBackedBytes,
    base_offset: i64,
    base_time_ms: i64,
    is_append_time: bool,
    /// Where records begin.
    starts: Vec<u32>,
    size: usize,
}

impl SourceBatch {
    fn found(&self, row: usize) -> Option<Found> {
        Found::at(&self.text, *self.starts.get(row)? as usize)
    }

    fn offset(&self, found: &Found) -> i64 {
        self.base_offset.wrapping_add(found.offset_delta)
    }

    fn time(&self, found: &Found) -> i64 {
        if self.is_append_time { self.base_time_ms } else { self.base_time_ms.wrapping_add(found.time_delta) }
    }

    /// A record without headers, and the bytes of its key and value; None if there is none, or if it has headers.
    #[inline]
    pub fn record(&self, row: usize) -> Option<(Record<'_>, usize)> {
        let found = self.found(row)?;
        (found.headers == 0).then_some(())?;
        let (offset, time_ms) = (self.offset(&found), self.time(&found));
        let size = found.size();
        let part = |part: Option<Range<usize>>| part.map(|range| &self.text[range]);
        Some((Record { key: part(found.key), value: part(found.value), offset, time_ms }, size))
    }

    fn parse(
        text: PyBackedBytes,
        at: usize,
        end: usize,
        count: usize,
        batch: (i64, i64, bool),
        begin: i64,
    ) -> Option<Self> {
        let (base_offset, base_time_ms, is_append_time) = batch;
        let data = text.get(..end)?;
        u32::try_from(end).ok()?;
        let mut starts = Vec::with_capacity(count.min(end.checked_sub(at)? / SMALLEST));
        let (mut at, mut size) = (at, 0);
        for _ in 0..count {
            let found = Found::at(data, at)?;
            found.check(data)?;
            if base_offset.wrapping_add(found.offset_delta) >= begin {
                starts.push(at as u32);
                size += found.size();
            }
            at = found.end;
        }
        (at == end).then_some(())?;
        Some(Self { text, base_offset, base_time_ms, is_append_time, starts, size })
    }
}

#[pymethods]
impl SourceBatch {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        text: PyBackedBytes,
        at: usize,
        end: usize,
        count: i64,
        base_offset: i64,
        base_time_ms: i64,
        is_append_time: bool,
        begin: i64,
    ) -> PyResult<Self> {
        let count = usize::try_from(count).unwrap_or(0);
        Self::parse(text, at, end, count, (base_offset, base_time_ms, is_append_time), begin)
            .ok_or_else(|| PyValueError::new_err("a record batch is damaged"))
    }

    /// Whether the checksum of the batch at a place is that of its text.
    #[staticmethod]
    fn is_intact(data: &[u8], start: usize, end: usize) -> bool {
        let Some(batch) = data.get(start..end) else { return false };
        let (Some(crc), Some(text)) = (batch.get(CRC_AT..ATTRIBUTES_AT), batch.get(ATTRIBUTES_AT..)) else {
            return false;
        };
        crc == crc32c::crc32c(text).to_be_bytes()
    }

    fn __len__(&self) -> usize {
        self.starts.len()
    }

    /// The records of rows, each made by `make`.
    fn records<'py>(
        &self,
        make: &Bound<'py, PyAny>,
        topic: &Bound<'py, PyString>,
        partition: &Bound<'py, PyAny>,
        first: usize,
        end: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = make.py();
        let records = PyList::empty(py);
        for found in (first..end.min(self.starts.len())).map_while(|row| self.found(row)) {
            let part =
                |part: &Option<Range<usize>>| part.clone().map(|range| PyBytes::new(py, &self.text[range]));
            let (offset, time_ms) = (self.offset(&found), self.time(&found));
            let headers = found.headers(py, &self.text)?;
            let (key, value) = (part(&found.key), part(&found.value));
            records.append(make.call1((topic, partition, offset, time_ms, key, value, headers))?)?;
        }
        Ok(records)
    }

    fn offset_of(&self, row: usize) -> PyResult<i64> {
        let found = self.found(row).ok_or_else(|| PyIndexError::new_err("there is no such row"))?;
        Ok(self.offset(&found))
    }

    /// The bytes of keys and values of rows.
    fn size_bytes(&self, first: usize, end: usize) -> usize {
        if first == 0 && end >= self.starts.len() {
            return self.size;
        }
        (first..end).map_while(|row| self.found(row)).map(|found| found.size()).sum()
    }

    /// The newest time of rows; None if there are none.
    fn newest_ms(&self, first: usize, end: usize) -> Option<i64> {
        (first..end).map_while(|row| self.found(row)).map(|found| self.time(&found)).max()
    }
}

/// A record to write.
pub struct Message<'a, N> {
    pub time_ms: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [(N, Option<&'a [u8]>)],
}

fn part_size(part: Option<&[u8]>) -> usize {
    part.map_or(1, |part| varint_size(part.len() as i64) + part.len())
}

fn push_part(part: Option<&[u8]>, out: &mut Vec<u8>) {
    match part {
        Some(part) => {
            push_varint(part.len() as i64, out);
            out.extend_from_slice(part);
        }
        None => push_varint(-1, out),
    }
}

/// Records of a target partition, encoded as they come (`relay.templates.batches.TargetBatch`).
#[pyclass(module = "relay_cdc_kernel")]
pub struct TargetBatch {
    most_bytes: usize,
    needs_key: bool,
    records: Vec<u8>,
    count: i32,
    first_time_ms: i64,
    newest_ms: i64,
}

impl TargetBatch {
    /// Add a record; false if the batch is full, or does not take it. An empty batch takes any.
    pub fn add<N: AsRef<[u8]>>(&mut self, message: &Message<'_, N>) -> Result<bool, TryReserveError> {
        let Message { time_ms, key, value, headers } = message;
        let is_first = self.count == 0;
        // Times are relative to the first one, so that it would also be that of records without a time.
        let is_untimed = self.first_time_ms == NO_TIME && *time_ms != NO_TIME;
        if !is_first && (is_untimed || (self.needs_key && key.is_none())) {
            return Ok(false);
        }
        let time_delta = if is_first { 0 } else { time_ms.wrapping_sub(self.first_time_ms) };
        let headers_size: usize =
            headers.iter().map(|(name, value)| part_size(Some(name.as_ref())) + part_size(*value)).sum();
        let size = 1
            + varint_size(time_delta)
            + varint_size(i64::from(self.count))
            + part_size(*key)
            + part_size(*value)
            + varint_size(headers.len() as i64)
            + headers_size;
        let whole_size = varint_size(size as i64) + size;
        if (!is_first && self.size() + whole_size > self.most_bytes) || self.count == i32::MAX {
            return Ok(false);
        }
        self.records.try_reserve(whole_size)?;
        if is_first {
            (self.first_time_ms, self.newest_ms) = (*time_ms, *time_ms);
        }
        self.newest_ms = self.newest_ms.max(*time_ms);
        let out = &mut self.records;
        push_varint(size as i64, out);
        out.push(0);
        push_varint(time_delta, out);
        push_varint(i64::from(self.count), out);
        push_part(*key, out);
        push_part(*value, out);
        push_varint(headers.len() as i64, out);
        for (name, value) in *headers {
            push_part(Some(name.as_ref()), out);
            push_part(*value, out);
        }
        self.count += 1;
        Ok(true)
    }

    /// What `undo` needs to remove the records that are added later.
    pub fn mark(&self) -> (usize, i32, i64) {
        (self.records.len(), self.count, self.newest_ms)
    }

    /// Remove the records that were added after `mark`.
    pub fn undo(&mut self, mark: (usize, i32, i64)) {
        self.records.truncate(mark.0);
        (self.count, self.newest_ms) = (mark.1, mark.2);
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// `relay.model.records.Header` as Python gives it.
type Header = (PyBackedStr, Option<PyBackedBytes>);

#[pymethods]
impl TargetBatch {
    #[new]
    fn new(most_bytes: usize, needs_key: bool) -> Self {
        let (records, count, first_time_ms, newest_ms) = Default::default();
        Self { most_bytes, needs_key, records, count, first_time_ms, newest_ms }
    }

    fn append(
        &mut self,
        time_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: Vec<Header>,
    ) -> PyResult<bool> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_ref().map(AsRef::as_ref)))
            .collect();
        let message = Message { time_ms, key, value, headers: &headers };
        self.add(&message).map_err(|error| PyMemoryError::new_err(error.to_string()))
    }

    fn __len__(&self) -> usize {
        self.count as usize
    }

    /// The bytes of the batch before compression.
    #[getter]
    fn size(&self) -> usize {
        HEADER + self.records.len()
    }

    /// The records, for compression.
    fn records<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.records)
    }

    /// The whole batch. `packed`: the compressed records, if the attributes name a compression.
    fn build<'py>(
        &self,
        py: Python<'py>,
        attributes: i16,
        packed: Option<&[u8]>,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let records = packed.unwrap_or(&self.records);
        let length = HEADER + records.len();
        let rest = i32::try_from(length - LENGTH_AT - 4).map_err(|_| PyValueError::new_err("too large"))?;
        let last = self.count - 1;
        PyBytes::new_with(py, length, |batch| {
            let mut fields = Fields(batch, LENGTH_AT); // the base offset is for the broker to set
            fields.put(&rest.to_be_bytes());
            fields.put(&(-1_i32).to_be_bytes()); // no leader epoch
            fields.put(&[MAGIC]);
            fields.put(&[0; 4]); // the checksum
            fields.put(&attributes.to_be_bytes());
            fields.put(&last.to_be_bytes());
            fields.put(&self.first_time_ms.to_be_bytes());
            fields.put(&self.newest_ms.to_be_bytes());
            fields.put(&producer_id.to_be_bytes());
            fields.put(&producer_epoch.to_be_bytes());
            fields.put(&base_sequence.to_be_bytes());
            fields.put(&self.count.to_be_bytes());
            fields.put(records);
            let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
            batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
            Ok(())
        })
    }
}

/// Where the next field of a batch is written.
struct Fields<'a>(&'a mut [u8], usize);

impl Fields<'_> {
    fn put(&mut self, field: &[u8]) {
        let Self(batch, at) = self;
        batch[*at..*at + field.len()].copy_from_slice(field);
        *at += field.len();
    }
}
