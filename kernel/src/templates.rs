//! Templates, found by the text at their marker.

use std::cell::Cell;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use memchr::memmem::Finder;

use crate::fill::Slots;
use crate::ops::{Bytes, Template};
use crate::scan::Scan;

/// How many templates one marker's text has at most; `relay.templates.engine.MOST_TRIED`.
const MOST_TRIED: usize = 8;

/// Where to look in a message.
pub struct Marker {
    pub in_key: bool,
    start: Finder<'static>,
    end: Finder<'static>,
}

impl Marker {
    pub fn new(in_key: bool, start: &[u8], end: &[u8]) -> Self {
        Self { in_key, start: Finder::new(start).into_owned(), end: Finder::new(end).into_owned() }
    }

    fn text<'a>(&self, part: &'a [u8]) -> Option<&'a [u8]> {
        let rest = &part[self.start.find(part)? + self.start.needle().len()..];
        Some(&rest[..self.end.find(rest)?])
    }

    /// What all messages of a template have at the marker; None if that is not certain.
    fn template_text(&self, template: &Template) -> Option<Bytes> {
        let source = if self.in_key { &template.key } else { &template.value };
        let source = source.as_ref()?;
        let mut texts = source.steps.iter().map(|step| &step.text).chain([&source.end]);
        let found = if self.start.needle().is_empty() {
            self.text(texts.next()?)
        } else {
            texts.find_map(|text| self.text(text))
        };
        found.map(Into::into)
    }
}

struct Kept {
    template: Template,
    text: Bytes,
}

/// A record as it is given.
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub offset: i64,
    pub time_ms: i64,
}

pub struct Templates {
    marker: Marker,
    kept: Vec<Option<Kept>>,
    free: Vec<usize>,
    /// By the text at the marker, the one that fitted last at first.
    numbers: HashMap<Bytes, Vec<usize>, RandomState>,
    scan: Scan,
    /// The target of the last record that was translated.
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    mark: Vec<u8>,
}

/// What was translated: the template's number with what lost values have added, and whether there are a key
/// and a value.
pub struct Translated {
    pub number: u64,
    pub has_key: bool,
    pub has_value: bool,
}

impl Templates {
    pub fn new(marker: Marker) -> Self {
        let (kept, free, numbers) = (Vec::new(), Vec::new(), HashMap::default());
        let (scan, key, value, mark) = Default::default();
        Self { marker, kept, free, numbers, scan, key, value, mark }
    }

    /// Keep a template, and return its number; None if its constants lack the marker.
    pub fn add(&mut self, template: Template) -> Option<usize> {
        let text = self.marker.template_text(&template)?;
        let numbers = self.numbers.entry(text.clone()).or_default();
        let oldest = if numbers.len() == MOST_TRIED { numbers.pop() } else { None };
        let number = oldest.or_else(|| self.free.pop()).unwrap_or(self.kept.len());
        numbers.insert(0, number);
        if number == self.kept.len() {
            self.kept.push(None);
        }
        self.kept[number] = Some(Kept { template, text });
        Some(number)
    }

    pub fn remove(&mut self, number: usize) {
        let Some(kept) = self.kept.get_mut(number).and_then(Option::take) else { return };
        self.free.push(number);
        if let Some(numbers) = self.numbers.get_mut(&kept.text) {
            numbers.retain(|&other| other != number);
            if numbers.is_empty() {
                self.numbers.remove(&kept.text);
            }
        }
    }

    pub fn clear(&mut self) {
        self.kept.clear();
        self.free.clear();
        self.numbers.clear();
    }

    /// The mark of what a record becomes: where its partition's offsets stand, its own, and that it is the first.
    pub fn mark(&mut self, place: &[u8], offset: i64) -> &[u8] {
        self.mark.clear();
        self.mark.extend_from_slice(place);
        self.mark.extend_from_slice(itoa::Buffer::new().format(offset).as_bytes());
        self.mark.extend_from_slice(b"/0");
        &self.mark
    }

    /// Translate a record into `key` and `value`; None if it fits no template.
    pub fn translate(&mut self, record: &Record<'_>) -> Option<Translated> {
        let part = if self.marker.in_key { record.key } else { record.value };
        let numbers = self.numbers.get_mut(self.marker.text(part?)?)?;
        for place in 0..numbers.len() {
            let number = numbers[place];
            let Some(Kept { template, .. }) = &self.kept[number] else { continue };
            self.key.clear();
            self.value.clear();
            let fitting = fit(template, record, &mut self.scan, &mut self.key, &mut self.value);
            if let Some(added) = fitting {
                numbers[..=place].rotate_right(1);
                let number = (number as u64).checked_add(added)?;
                let (has_key, has_value) = (template.target_key.is_some(), template.target_value.is_some());
                return Some(Translated { number, has_key, has_value });
            }
        }
        None
    }
}

/// What lost values add to the template's number.
fn fit(
    template: &Template,
    record: &Record<'_>,
    scan: &mut Scan,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Option<u64> {
    scan.places.clear();
    for (source, part, in_value) in
        [(&template.key, record.key, false), (&template.value, record.value, true)]
    {
        match (source, part) {
            (Some(source), Some(part)) => scan.part(source, part, in_value)?,
            (None, None) => {}
            _ => return None,
        }
    }
    let slots = Slots { record, places: &scan.places, added: Cell::new(0) };
    for condition in &template.conditions {
        slots.holds(condition)?.then_some(())?;
    }
    for (target, out) in [(&template.target_key, &mut *key), (&template.target_value, &mut *value)] {
        if let Some(target) = target {
            slots.print(target, out)?;
        }
    }
    (key.len() + value.len() <= template.most_bytes).then_some(slots.added.get())
}
