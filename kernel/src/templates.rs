//! Templates, found by the text at their marker.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use memchr::memmem::Finder;

use crate::ahead;
use crate::avro::{self, Flat};
use crate::clear;
use crate::fill::Slots;
use crate::ops::{Bytes, TargetMessage, Template};
use crate::scan::{Scan, ends_like};
use crate::sharing::Ways;
use crate::token::Within;

/// How many templates one marker's text has at most; `relay.templates.engine.MAX_TRIED`.
pub const MAX_TRIED: usize = 8;
/// The credit for failed attempts, and how often messages are tried without credit; see `relay.templates.engine`.
const CREDIT_PER_MATCH: usize = 8;
const MAX_CREDIT: usize = 64;
const TRY_INTERVAL: usize = 16;

/// What a lost value adds to a template's number is a multiple of this; `relay.templates.ops`.
const LOSS: u64 = 1 << 32;

/// A template that was not tried with so many messages is no longer in the caches of a processor, probably.
const IN_CACHES: u64 = 1024;

/// The part of a record that a marker is in.
pub enum MarkedPart {
    Key,
    Value,
    /// The key; the value of a record without a key.
    Any,
}

impl MarkedPart {
    fn of<T>(&self, key: Option<T>, value: Option<T>) -> Option<T> {
        match self {
            Self::Key => key,
            Self::Value => value,
            Self::Any => key.or(value),
        }
    }
}

/// Where to look in a message.
pub struct Marker {
    part: MarkedPart,
    start: Finder<'static>,
    end: Finder<'static>,
    /// If above 0, the marker is the first `size` bytes and these values in Avro after them; `start` and `end` are
    /// unused.
    size: usize,
    values: Vec<Flat>,
    /// If above 0, so many texts with their lengths end the marker; `end` is unused.
    texts: usize,
}

impl Marker {
    pub fn new(
        part: MarkedPart,
        start: &[u8],
        end: &[u8],
        size: usize,
        values: Vec<Flat>,
        texts: usize,
    ) -> Self {
        let finder = |text| Finder::new(text).into_owned();
        Self { part, start: finder(start), end: finder(end), size, values, texts }
    }

    fn text<'a>(&self, part: &'a [u8]) -> Option<&'a [u8]> {
        if self.size > 0 {
            let rest = avro::skip(&self.values, part.get(self.size..)?)?;
            return part.get(..part.len() - rest.len());
        }
        if self.texts > 0 {
            return self.sized_texts([part].into_iter());
        }
        let rest = &part[self.start.find(part)? + self.start.needle().len()..];
        Some(&rest[..self.end.find(rest)?])
    }

    /// The first texts at the marker of which one is not empty; if there are none, the first.
    fn sized_texts<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
        let mut first = None;
        for mut rest in parts {
            while let Some(at) = self.start.find(rest) {
                rest = &rest[at + self.start.needle().len()..];
                let Some((text, is_empty)) = sized_texts(rest, self.texts) else { continue };
                if !is_empty {
                    return Some(text);
                }
                first = first.or(Some(text));
            }
        }
        first
    }

    /// What a record has at the marker.
    pub fn of<'a>(&self, record: &Record<'a>) -> Option<&'a [u8]> {
        self.text(self.part.of(record.key, record.value)?)
    }

    /// What all messages of a template have at the marker; None if that is not certain.
    fn template_text(&self, template: &Template) -> Option<Bytes> {
        let source = self.part.of(template.key.as_ref(), template.value.as_ref())?;
        let constants = source.ops.steps.iter().map(|step| step.before).chain([source.ops.end]);
        let mut texts = constants.map(|constant| source.constants.text(constant));
        if self.texts > 0 {
            return self.sized_texts(texts).map(Into::into);
        }
        let found = if self.size > 0 || self.start.needle().is_empty() {
            self.text(texts.next()?)
        } else {
            texts.find_map(|text| self.text(text))
        };
        found.map(Into::into)
    }
}

/// Texts after their lengths, with a byte between them, and whether all are empty.
fn sized_texts(rest: &[u8], count: usize) -> Option<(&[u8], bool)> {
    let mut end = 0;
    for number in 0..count {
        end += usize::from(number > 0);
        let length = *rest.get(end)?;
        end += 1 + usize::from(length);
        (length < 0x80).then_some(())?;
    }
    Some((rest.get(..end)?, end == 2 * count - 1))
}

/// What follows from the number of a row (`relay.templates.engine.Engine.allow`).
#[derive(Clone, Copy)]
pub struct Permission {
    pub has_tombstone: bool,
    /// Which target batch takes the row.
    pub target: usize,
}

pub struct Kept {
    pub template: Template,
    text: Bytes,
    /// Templates with the same source ops have the same.
    pub shape: usize,
    /// With which message it was last tried.
    tried: u64,
    /// The numbers, with what lost values add, of rows that are allowed (`Engine.allow`).
    allowed: Vec<(u64, Permission)>,
}

/// The templates with one text at the marker, and which messages are tried with them: as records of one row that
/// become one message, and row by row.
#[derive(Default)]
pub struct Tried {
    /// The one that fitted last at first.
    pub numbers: Vec<usize>,
    whole: Credit,
    pub rows: Credit,
}

/// How many templates messages may still be tried with without success, and how many messages were not tried since the
/// last one.
#[derive(Default, Clone, Copy)]
pub struct Credit {
    credit: usize,
    skipped: usize,
}

impl Credit {
    const FULL: Self = Self { credit: MAX_CREDIT, skipped: 0 };

    pub fn is_due(&mut self) -> bool {
        if self.credit > 0 {
            return true;
        }
        self.skipped = (self.skipped + 1) % TRY_INTERVAL;
        self.skipped == 0
    }

    pub fn gain(&mut self) {
        self.credit = MAX_CREDIT.min(self.credit + CREDIT_PER_MATCH);
    }

    pub fn lose(&mut self, templates: usize) {
        self.credit = self.credit.saturating_sub(templates);
    }
}

/// A record as it is given.
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub offset: i64,
    pub time_ms: i64,
}

pub struct Templates {
    pub marker: Marker,
    pub kept: Vec<Option<Kept>>,
    free: Vec<usize>,
    /// By the text at the marker.
    pub tried: HashMap<Bytes, Tried, RandomState>,
    shapes: usize,
    /// How many messages were tried.
    messages: u64,
    /// How values are written, of all templates.
    pub ways: Ways,
    pub scan: Scan,
    /// The credit of the last message, before it was tried with templates.
    pub before: Option<Credit>,
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
        let (kept, free, tried) = (Vec::new(), Vec::new(), HashMap::default());
        let (shapes, messages, ways, scan, before, key, value, mark) = Default::default();
        Self { marker, kept, free, tried, shapes, messages, ways, scan, before, key, value, mark }
    }

    /// Keep a template, and return its number; None if its constants lack the marker.
    pub fn add(&mut self, template: Template) -> Option<usize> {
        let text = self.marker.template_text(&template)?;
        let shape = self.shape_of(&template, &text);
        let tried = self.tried.entry(text.clone()).or_default();
        (tried.whole, tried.rows) = (Credit::FULL, Credit::FULL);
        let is_same =
            |&at: &usize| self.kept[at].as_ref().is_some_and(|kept| kept.template.hash == template.hash);
        let reused = if let Some(place) = tried.numbers.iter().position(is_same) {
            Some(tried.numbers.remove(place))
        } else if tried.numbers.len() == MAX_TRIED {
            tried.numbers.pop()
        } else {
            self.free.pop()
        };
        let number = reused.unwrap_or(self.kept.len());
        tried.numbers.insert(0, number);
        if number == self.kept.len() {
            self.kept.push(None);
        }
        self.kept[number] = Some(Kept { template, text, shape, tried: self.messages, allowed: Vec::new() });
        Some(number)
    }

    fn shape_of(&mut self, template: &Template, text: &Bytes) -> usize {
        let numbers = self.tried.get(text).map_or(&[][..], |tried| &tried.numbers);
        let others = numbers.iter().filter_map(|&at| self.kept[at].as_ref());
        let is_same = |other: &Template| other.key == template.key && other.value == template.value;
        let same = others.filter(|kept| is_same(&kept.template)).map(|kept| kept.shape).next();
        same.unwrap_or_else(|| {
            self.shapes += 1;
            self.shapes
        })
    }

    pub fn remove(&mut self, number: usize) {
        let Some(kept) = self.kept.get_mut(number).and_then(Option::take) else { return };
        self.free.push(number);
        if let Some(tried) = self.tried.get_mut(&kept.text) {
            tried.numbers.retain(|&other| other != number);
            if tried.numbers.is_empty() {
                self.tried.remove(&kept.text);
            }
        }
    }

    /// Allow `translate_columns` and `translate_batch` to translate rows with this number; an unknown number has no effect.
    pub fn allow(&mut self, number: u64, permission: Permission) {
        let kept = self.kept.get_mut((number % LOSS) as usize).and_then(Option::as_mut);
        let Some(Kept { allowed, .. }) = kept else { return };
        allowed.retain(|&(other, _)| other != number);
        allowed.push((number, permission));
    }

    /// Withdraw all permissions of `allow`.
    pub fn disallow(&mut self) {
        self.kept.iter_mut().flatten().for_each(|kept| kept.allowed.clear());
    }

    /// Return what is allowed for rows with this number; None if it is nothing.
    pub fn allows(&self, number: u64) -> Option<Permission> {
        let kept = self.kept.get((number % LOSS) as usize).and_then(Option::as_ref)?;
        kept.allowed.iter().find(|&&(other, _)| other == number).map(|&(_, permission)| permission)
    }

    pub fn clear(&mut self) {
        self.kept.clear();
        self.free.clear();
        self.tried.clear();
    }

    /// The source mark of a record's first message: its partition's prefix, its offset, and `/0`.
    pub fn mark(&mut self, mark_prefix: &[u8], offset: i64) -> &[u8] {
        self.mark.clear();
        self.mark.extend_from_slice(mark_prefix);
        self.mark.extend_from_slice(itoa::Buffer::new().format(offset).as_bytes());
        self.mark.extend_from_slice(b"/0");
        &self.mark
    }

    /// The source mark of the tombstone that follows the message of the last `mark`.
    pub fn mark_of_tombstone(&mut self) -> &[u8] {
        self.mark.pop();
        self.mark.push(b'1');
        &self.mark
    }

    /// The last source mark.
    pub fn last_mark(&self) -> &[u8] {
        &self.mark
    }

    /// Forget that the last record was tried with templates: it will be tried again.
    pub fn undo(&mut self, record: &Record<'_>) {
        let (Some(credit), Some(text)) = (self.before, self.marker.of(record)) else { return };
        if let Some(tried) = self.tried.get_mut(text) {
            tried.whole = credit;
        }
    }

    /// Translate a record of one row that becomes one message into `key` and `value`; None if it fits no
    /// template of that kind.
    pub fn translate(&mut self, record: &Record<'_>) -> Option<Translated> {
        self.before = None;
        let tried = self.tried.get_mut(self.marker.of(record)?)?;
        self.before = Some(tried.whole);
        if !tried.whole.is_due() {
            return None;
        }
        self.messages += 1;
        // The source ops by which the message was scanned last, and whether it fits them.
        let mut scanned = (0, false);
        for place in 0..tried.numbers.len() {
            let number = tried.numbers[place];
            let Some(Kept { template, tried: last, shape, .. }) = &mut self.kept[number] else { continue };
            if self.messages - std::mem::replace(last, self.messages) > IN_CACHES {
                ahead::fetch(template);
            }
            let [target] = &*template.targets else { continue };
            if scanned.0 != *shape {
                self.scan.is_of_one = true;
                scanned = (*shape, scan_rows(template, record, &mut self.scan).is_some());
            }
            if !scanned.1 {
                continue;
            }
            let fitting = fit(template, target, record, &self.scan, &mut self.key, &mut self.value);
            if let Some(added) = fitting {
                tried.numbers[..=place].rotate_right(1);
                tried.whole.gain();
                let number = (number as u64).checked_add(added)?;
                let TargetMessage { key, value } = target;
                return Some(Translated { number, has_key: key.is_some(), has_value: value.is_some() });
            }
        }
        tried.whole.lose(tried.numbers.len());
        None
    }
}

/// What lost values add to the template's number, for a message that was scanned.
fn fit(
    template: &Template,
    target: &TargetMessage,
    record: &Record<'_>,
    scan: &Scan,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Option<u64> {
    let slots = Slots::new(record, scan);
    holds(template, &slots)?;
    print(target, template.most_bytes, &slots, key, value)?;
    Some(slots.added.get())
}

/// Find the tokens of a message, and how many rows it has. None if it does not fit.
pub fn scan_rows(template: &Template, record: &Record<'_>, scan: &mut Scan) -> Option<usize> {
    scan.clear();
    let parts = [(&template.key, record.key, Within::Key), (&template.value, record.value, Within::Value)];
    for (source, part, _) in parts {
        if let (Some(source), Some(part)) = (source, part) {
            ends_like(source, part).then_some(())?;
        }
    }
    for (source, part, within) in parts {
        match (source, part) {
            (Some(source), Some(part)) => scan.part(source, part, within)?,
            (None, None) => {}
            _ => return None,
        }
    }
    scan.rows()
}

/// Whether all conditions are true for a row; None if one is not.
pub fn holds(template: &Template, slots: &Slots<'_>) -> Option<()> {
    template.conditions.iter().try_for_each(|condition| slots.holds(condition)?.then_some(()))
}

/// Print a message of the target.
pub fn print(
    target: &TargetMessage,
    most_bytes: usize,
    slots: &Slots<'_>,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Option<()> {
    for (target, out) in [(&target.key, &mut *key), (&target.value, &mut *value)] {
        clear(out);
        if let Some(target) = target {
            slots.print(target, out)?;
        }
    }
    (key.len() + value.len() <= most_bytes).then_some(())
}
