//! Records of any number of rows that become any number of messages.

use crate::fields::{MessageFields, Packet};
use crate::fill::Slots;
use crate::ops::Template;
use crate::scan::Scan;
use crate::templates::{Kept, MAX_TRIED, Record, Templates, Translated, Tried, holds, print, scan_rows};

/// How messages stand together in a record.
pub enum Framing {
    Frames(Frames),
    MessageFields(MessageFields),
}

/// Messages after their lengths; `relay.templates.ops.Frames`.
pub struct Frames {
    pub head: Vec<u8>,
    pub width: usize,
}

impl Frames {
    /// The first frame of a text with its number, and what stands behind it.
    fn first<'a>(&self, text: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let number = text.get(..self.width)?;
        let length = number.iter().fold(0, |length, &byte| length << 8 | u64::from(byte));
        text.split_at_checked(self.width.checked_add(usize::try_from(length).ok()?)?)
    }

    /// How many frames a text is made of.
    fn count(&self, mut text: &[u8]) -> Option<usize> {
        let mut count = 0;
        while !text.is_empty() {
            (_, text) = self.first(text)?;
            count += 1;
        }
        Some(count)
    }

    /// The frames of a record's key and value, if they are whole and as many.
    fn of<'a>(&self, record: &Record<'a>) -> Option<(&'a [u8], &'a [u8])> {
        let (keys, values) = (record.key?.strip_prefix(&*self.head)?, record.value?);
        let count = self.count(keys)?;
        (count > 0 && self.count(values)? == count).then_some((keys, values))
    }
}

/// How many of a record's rows fit.
pub enum Fitted {
    /// All of them, and how many there are.
    All(usize),
    /// So many before the first that does not.
    Some(usize),
}

/// A part of a record: so many messages of groups that fit, or the value of a record with groups that do not.
pub enum Piece {
    Messages(usize),
    Rest(Vec<u8>),
}

impl Packet<'_> {
    /// Add the messages that have not fitted, if there are any.
    fn add_rest(&self, rest: &mut Vec<&[u8]>, pieces: &mut Vec<Piece>) {
        if !rest.is_empty() {
            let mut value = Vec::new();
            self.alone(rest.iter().copied(), &mut value);
            rest.clear();
            pieces.push(Piece::Rest(value));
        }
    }
}

/// What rows become: each message with the number of its template and what the row's lost values have added.
pub struct Messages<T, F> {
    pub found: Vec<(u64, T)>,
    make: F,
    /// How many bytes more there may be, and what a message has beside key and value.
    remaining_bytes: i64,
    shared: i64,
}

impl<T, F: Fn(Option<&[u8]>, Option<&[u8]>) -> T> Messages<T, F> {
    pub fn new(make: F, remaining_bytes: i64, shared: i64) -> Self {
        Self { found: Vec::new(), make, remaining_bytes, shared }
    }

    /// Add what a row becomes by a template; all of it or, if it does not fit, nothing.
    fn add(&mut self, number: usize, kept: &Kept, slots: &Slots<'_>, texts: &mut Texts<'_>) -> Option<()> {
        let (before, remaining_bytes) = (self.found.len(), self.remaining_bytes);
        let added = self.add_messages(&kept.template, slots, texts);
        let Some(number) = added.and_then(|added| (number as u64).checked_add(added)) else {
            self.found.truncate(before);
            self.remaining_bytes = remaining_bytes;
            return None;
        };
        self.found[before..].iter_mut().for_each(|(its_number, _)| *its_number = number);
        Some(())
    }

    /// Add the messages of a row, without their number, and give what its lost values add to that.
    fn add_messages(&mut self, template: &Template, slots: &Slots<'_>, texts: &mut Texts<'_>) -> Option<u64> {
        let Texts { key, value } = texts;
        slots.added.set(0);
        holds(template, slots)?;
        for target in &template.targets {
            print(target, template.most_bytes, slots, key, value)?;
            let key_text = target.key.is_some().then_some(key.as_slice());
            let value_text = target.value.is_some().then_some(value.as_slice());
            self.found.push((0, (self.make)(key_text, value_text)));
            self.remaining_bytes -= self.shared + (key.len() + value.len()) as i64;
        }
        Some(slots.added.get())
    }
}

/// Buffers for a message's key and value.
struct Texts<'a> {
    key: &'a mut Vec<u8>,
    value: &'a mut Vec<u8>,
}

impl Templates {
    /// Translate a record of one row that becomes one message, like `translate`; None for a record of several
    /// messages.
    pub fn translate_only(&mut self, record: &Record<'_>, framing: Option<&Framing>) -> Option<Translated> {
        self.before = None;
        if let (Some(Framing::MessageFields(fields)), Some(value)) = (framing, record.value) {
            fields.has_one(value)?;
        }
        self.translate(record)
    }

    /// Translate a record row by row; see `Engine.translate_rows`.
    pub fn translate_rows<T, F: Fn(Option<&[u8]>, Option<&[u8]>) -> T>(
        &mut self,
        record: &Record<'_>,
        framing: Option<&Framing>,
        messages: &mut Messages<T, F>,
    ) -> Fitted {
        let frames = match framing {
            None => return self.message(record, messages),
            Some(Framing::MessageFields(fields)) => return self.messages_of(fields, record, messages),
            Some(Framing::Frames(frames)) => frames,
        };
        let Some((mut keys, mut values)) = frames.of(record) else { return Fitted::Some(0) };
        let mut key = frames.head.clone();
        let mut rows = 0;
        while let (Some((frame, other_keys)), Some((value, other_values))) =
            (frames.first(keys), frames.first(values))
        {
            key.truncate(frames.head.len());
            key.extend_from_slice(frame);
            match self.message(&Record { key: Some(&key), value: Some(value), ..*record }, messages) {
                Fitted::All(more) => rows += more,
                Fitted::Some(_) if messages.remaining_bytes < 0 => return Fitted::Some(0),
                Fitted::Some(fitted) => return Fitted::Some(rows + fitted),
            }
            (keys, values) = (other_keys, other_values);
        }
        Fitted::All(rows)
    }

    /// Translate a record of messages that are fields of one.
    fn messages_of<T, F: Fn(Option<&[u8]>, Option<&[u8]>) -> T>(
        &mut self,
        fields: &MessageFields,
        record: &Record<'_>,
        messages: &mut Messages<T, F>,
    ) -> Fitted {
        let Some(packet) = record.value.and_then(|value| fields.of(value)) else { return Fitted::Some(0) };
        let (mut rows, mut value) = (0, Vec::new());
        let all_fit = packet.groups().all(|group| {
            packet.each(&group, &mut value, |value| {
                match self.message(&Record { value: Some(value), ..*record }, messages) {
                    Fitted::All(more) => rows += more,
                    Fitted::Some(_) if messages.remaining_bytes < 0 => {
                        rows = 0;
                        return false;
                    }
                    Fitted::Some(fitted) => {
                        rows += fitted;
                        return false;
                    }
                }
                true
            })
        });
        if all_fit { Fitted::All(rows) } else { Fitted::Some(rows) }
    }

    /// Translate the groups of a record that fit; see `Engine.translate_groups`. None if they become too much.
    pub fn translate_groups<T, F: Fn(Option<&[u8]>, Option<&[u8]>) -> T>(
        &mut self,
        record: &Record<'_>,
        fields: &MessageFields,
        messages: &mut Messages<T, F>,
    ) -> Option<Vec<Piece>> {
        let packet = fields.of(record.value?)?;
        let (mut pieces, mut rest, mut value) = (Vec::new(), Vec::new(), Vec::new());
        for group in packet.groups() {
            let (before, remaining_bytes) = (messages.found.len(), messages.remaining_bytes);
            let fits = packet.each(&group, &mut value, |value| {
                let record = Record { value: Some(value), ..*record };
                matches!(self.message(&record, messages), Fitted::All(_))
            });
            if messages.remaining_bytes < 0 {
                return None;
            }
            if fits {
                packet.add_rest(&mut rest, &mut pieces);
                pieces.push(Piece::Messages(messages.found.len() - before));
            } else {
                messages.found.truncate(before);
                messages.remaining_bytes = remaining_bytes;
                rest.extend(group.fields());
            }
        }
        packet.add_rest(&mut rest, &mut pieces);
        Some(pieces)
    }

    /// Add the rows of a message, by the first source that all of them fit; if there is none, nothing.
    fn message<T, F: Fn(Option<&[u8]>, Option<&[u8]>) -> T>(
        &mut self,
        record: &Record<'_>,
        messages: &mut Messages<T, F>,
    ) -> Fitted {
        let Self { marker, kept, tried, scan, key, value, .. } = self;
        let Some(Tried { numbers, rows: credit, .. }) =
            marker.of(record).and_then(|text| tried.get_mut(text))
        else {
            return Fitted::Some(0);
        };
        if !credit.is_due() {
            return Fitted::Some(0);
        }
        let (before, remaining_bytes) = (messages.found.len(), messages.remaining_bytes);
        let (mut order, mut shapes, mut met, mut most) = ([0; MAX_TRIED], [0; MAX_TRIED], 0, 0);
        let count = numbers.len().min(MAX_TRIED);
        order[..count].copy_from_slice(&numbers[..count]);
        scan.is_of_one = false;
        for number in &order[..count] {
            let Some(first) = &kept[*number] else { continue };
            if shapes[..met].contains(&first.shape) {
                continue;
            }
            shapes[met] = first.shape;
            met += 1;
            let Some(rows) = scan_rows(&first.template, record, scan) else { continue };
            let mut texts = Texts { key: &mut *key, value: &mut *value };
            let fitted = add_rows(rows, record, first.shape, kept, numbers, scan, messages, &mut texts);
            if messages.remaining_bytes < 0 {
                return Fitted::Some(0);
            }
            if fitted == rows {
                credit.gain();
                return Fitted::All(rows);
            }
            most = most.max(fitted);
            messages.found.truncate(before);
            messages.remaining_bytes = remaining_bytes;
        }
        credit.lose(met);
        Fitted::Some(most)
    }
}

/// Add rows up to the first that fits no template of a shape, and give their number.
#[allow(clippy::too_many_arguments)] // the parts of `Templates`, of which each is used in its own way
fn add_rows<T, F: Fn(Option<&[u8]>, Option<&[u8]>) -> T>(
    rows: usize,
    record: &Record<'_>,
    shape: usize,
    kept: &[Option<Kept>],
    numbers: &mut [usize],
    scan: &mut Scan,
    messages: &mut Messages<T, F>,
    texts: &mut Texts<'_>,
) -> usize {
    for row in 0..rows {
        if row > 0 && scan.go_to(row).is_none() {
            return row;
        }
        let slots = Slots::new(record, scan);
        let fits = |&number: &usize| {
            let kept = kept[number].as_ref().filter(|kept| kept.shape == shape);
            kept.is_some_and(|kept| messages.add(number, kept, &slots, texts).is_some())
        };
        let Some(place) = numbers.iter().position(fits) else { return row };
        numbers[..=place].rotate_right(1);
        if messages.remaining_bytes < 0 {
            return row;
        }
    }
    rows
}
