//! The native kernel of relay-cdc: an engine of `relay.templates`, which fills templates.
//!
//! `relay/templates/ops.py` says what templates are, `tests/reference_engine` is the same in Python.

mod ahead;
mod avro;
mod batches;
mod columns;
mod conversions;
mod fields;
mod fill;
mod json;
mod names;
mod ops;
mod reading;
mod rows;
mod runs;
mod scan;
mod sharing;
mod spans;
mod templates;
mod token;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::avro::{AvroOp, Flat};
use crate::batches::{SourceBatch, TargetBatch};
use crate::columns::{Bounds, RecordColumns, Written, WrittenColumns};
use crate::fields::MessageFields;
use crate::ops::{Bytes, Template};
use crate::rows::{Fitted, Frames, Framing, Messages, Piece};
use crate::runs::{Course, Run};
use crate::templates::{MarkedPart, Marker, Permission, Record, Templates, Translated};

/// Changes with what templates are made of, with conversions and with the methods of `Kernel`.
const INTERFACE: u32 = 13;

/// Bytes of a buffer that are kept for the next value: there are many schemas and topics, and few large values.
const MOST_KEPT: usize = 1 << 16;

/// Clear a buffer for the next value.
fn clear<T>(buffer: &mut Vec<T>) {
    buffer.clear();
    buffer.shrink_to(MOST_KEPT / size_of::<T>());
}

/// Makes JSON of Avro (`relay.templates.engine.AvroReader`).
#[pyclass(module = "relay_cdc_kernel")]
struct AvroReader {
    head: Bytes,
    op: AvroOp,
    end: Bytes,
    /// The JSON of the last value.
    json: Vec<u8>,
}

#[pymethods]
impl AvroReader {
    fn text<'py>(&mut self, py: Python<'py>, data: &[u8], start: usize) -> Option<Bound<'py, PyBytes>> {
        let Self { head, op, end, json } = self;
        clear(json);
        json.extend_from_slice(head);
        avro::print(op, data.get(start..)?, json)?;
        json.extend_from_slice(end);
        Some(PyBytes::new(py, json))
    }
}

/// Makes Avro of JSON (`relay.templates.engine.AvroWriter`).
#[pyclass(module = "relay_cdc_kernel")]
struct AvroWriter {
    head: Bytes,
    op: AvroOp,
    end: Bytes,
    /// The Avro of the last value.
    body: Vec<u8>,
}

#[pymethods]
impl AvroWriter {
    fn body<'py>(&mut self, py: Python<'py>, text: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let Self { head, op, end, body } = self;
        clear(body);
        avro::write(op, text.strip_prefix(&**head)?.strip_suffix(&**end)?, body)?;
        Some(PyBytes::new(py, body))
    }
}

/// Keeps templates, and translates the messages that fit one (`relay.templates.engine.Engine`).
///
/// The templates are in a box because Python allocates objects at multiples of 16 bytes, and searchers for
/// markers hold vector registers, which need more.
#[pyclass(module = "relay_cdc_kernel")]
struct Kernel(Box<Templates>, Option<Framing>);

const _: () = assert!(align_of::<Kernel>() <= 16, "Python aligns objects at 16 bytes");

/// The tuples of `relay.templates.ops.Frames` and `MessageFields`.
#[derive(FromPyObject)]
enum NewFraming {
    Frames(Vec<u8>, usize),
    MessageFields(u8, u8, u8, u8, u8),
}

type Translation<'py> = (u64, Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>);
type Message<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

/// `relay.templates.batches.WrittenRun`.
type WrittenRun = (usize, Option<u64>, Vec<(u64, usize)>);

/// Return how `Messages` makes a message of a key and a value.
fn new_message<'py>(py: Python<'py>) -> impl Fn(Option<&[u8]>, Option<&[u8]>) -> Message<'py> {
    let bytes = move |part: Option<&[u8]>| part.map(|part| PyBytes::new(py, part));
    move |key: Option<&[u8]>, value: Option<&[u8]>| (bytes(key), bytes(value))
}

/// Append messages as runs of the same template (`relay.templates.engine.Run`).
fn append_runs<'py>(out: &Bound<'py, PyList>, messages: &[(u64, Message<'py>)]) -> PyResult<()> {
    messages.chunk_by(|(one, _), (other, _)| one == other).try_for_each(|run| {
        out.append((run[0].0, PyList::new(out.py(), run.iter().map(|(_, message)| message))?))
    })
}

#[pymethods]
impl Kernel {
    #[new]
    #[pyo3(signature = (marker, framing=None))]
    fn new(
        marker: (String, Vec<u8>, Vec<u8>, usize, Vec<String>, usize),
        framing: Option<NewFraming>,
    ) -> PyResult<Self> {
        let (part, start, end, size, values, texts) = marker;
        let part = match part.as_str() {
            "key" => MarkedPart::Key,
            "value" => MarkedPart::Value,
            "any" => MarkedPart::Any,
            _ => return Err(PyValueError::new_err("the part of a marker is key, value or any")),
        };
        let values = values.iter().map(|kind| match kind.as_str() {
            "long" => Ok(Flat::Long),
            "string" => Ok(Flat::Text),
            _ => Err(PyValueError::new_err("the values of a marker are of the kinds long and string")),
        });
        let marker = Marker::new(part, &start, &end, size, values.collect::<PyResult<_>>()?, texts);
        let framing = match framing {
            Some(NewFraming::Frames(head, width)) if (1..=8).contains(&width) => {
                Some(Framing::Frames(Frames { head, width }))
            }
            Some(NewFraming::Frames(..)) => {
                return Err(PyValueError::new_err("a number has 1 to 8 bytes"));
            }
            Some(NewFraming::MessageFields(outer, inner, kind, begin, end)) => {
                Some(Framing::MessageFields(MessageFields { outer, inner, kind, begin, end }))
            }
            None => None,
        };
        Ok(Self(Box::new(Templates::new(marker)), framing))
    }

    #[staticmethod]
    fn avro_reader(head: Vec<u8>, op: &Bound<'_, PyAny>, end: Vec<u8>) -> PyResult<AvroReader> {
        Ok(AvroReader { head: head.into(), op: AvroOp::read(op)?, end: end.into(), json: Vec::new() })
    }

    #[staticmethod]
    fn avro_writer(head: Vec<u8>, op: &Bound<'_, PyAny>, end: Vec<u8>) -> PyResult<AvroWriter> {
        Ok(AvroWriter { head: head.into(), op: AvroOp::read(op)?, end: end.into(), body: Vec::new() })
    }

    fn add(&mut self, template: &Bound<'_, PyAny>) -> PyResult<usize> {
        let template = Template::read(template, &mut self.0.ways)?;
        let number = self.0.add(template);
        number.ok_or_else(|| PyValueError::new_err("a template's constants lack the marker"))
    }

    fn remove(&mut self, number: i64) {
        if let Ok(number) = usize::try_from(number) {
            self.0.remove(number);
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn translate<'py>(
        &mut self,
        py: Python<'py>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        offset: i64,
        time_ms: i64,
        mark_prefix: &[u8],
    ) -> Option<Translation<'py>> {
        let record = Record { key, value, offset, time_ms };
        let Translated { number, has_key, has_value } = self.0.translate_only(&record, self.1.as_ref())?;
        let key = has_key.then(|| PyBytes::new(py, &self.0.key));
        let value = has_value.then(|| PyBytes::new(py, &self.0.value));
        Some((number, key, value, PyBytes::new(py, self.0.mark(mark_prefix, offset))))
    }

    fn allow(&mut self, number: u64, has_tombstone: bool, target: usize) {
        self.0.allow(number, Permission { has_tombstone, target });
    }

    fn disallow(&mut self) {
        self.0.disallow();
    }

    #[allow(clippy::too_many_arguments)]
    fn translate_columns<'py>(
        &mut self,
        py: Python<'py>,
        columns: RecordColumns,
        first: usize,
        end: usize,
        most_bytes: usize,
        most_row_bytes: usize,
        mark_prefix: &[u8],
    ) -> WrittenColumns<'py> {
        let bounds = Bounds { first, end, most_bytes, most_row_bytes };
        Written::of(&mut self.0, self.1.as_ref(), &columns, &bounds, mark_prefix).into_python(py)
    }

    #[allow(clippy::too_many_arguments)]
    fn translate_batch(
        &mut self,
        source: &SourceBatch,
        first: usize,
        end: usize,
        targets: &Bound<'_, PyList>,
        most_row_bytes: usize,
        mark_prefix: &[u8],
    ) -> WrittenRun {
        let course = Course { framing: self.1.as_ref(), most_row_bytes, mark_prefix };
        let Run { rows, refused, uses } = Run::of(&mut self.0, source, first..end, targets, &course);
        (rows, refused, uses.counts)
    }

    #[allow(clippy::too_many_arguments)]
    fn translate_rows<'py>(
        &mut self,
        py: Python<'py>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        offset: i64,
        time_ms: i64,
        max_output_bytes: i64,
        shared: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut messages = Messages::new(new_message(py), max_output_bytes, shared);
        let record = Record { key, value, offset, time_ms };
        match self.0.translate_rows(&record, self.1.as_ref(), &mut messages) {
            Fitted::All(_) => {}
            Fitted::Some(rows) => return Ok(rows.into_pyobject(py)?.into_any()),
        }
        let found = PyList::empty(py);
        append_runs(&found, &messages.found)?;
        Ok(found.into_any())
    }

    #[allow(clippy::too_many_arguments)]
    fn translate_groups<'py>(
        &mut self,
        py: Python<'py>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        offset: i64,
        time_ms: i64,
        max_output_bytes: i64,
        shared: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut messages = Messages::new(new_message(py), max_output_bytes, shared);
        let record = Record { key, value, offset, time_ms };
        let found = PyList::empty(py);
        let Some(Framing::MessageFields(fields)) = &self.1 else { return Ok(found) };
        let Some(pieces) = self.0.translate_groups(&record, fields, &mut messages) else { return Ok(found) };
        let (mut start, mut end) = (0, 0);
        for piece in pieces {
            match piece {
                Piece::Messages(count) => end += count,
                Piece::Rest(value) => {
                    append_runs(&found, &messages.found[start..end])?;
                    start = end;
                    found.append(PyBytes::new(py, &value))?;
                }
            }
        }
        append_runs(&found, &messages.found[start..end])?;
        Ok(found)
    }
}

#[pymodule]
fn relay_cdc_kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<SourceBatch>()?;
    module.add_class::<TargetBatch>()?;
    module.add_class::<Kernel>()
}
