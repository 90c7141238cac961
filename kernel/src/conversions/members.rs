//! Labels of ENUM and SET, and their numbers.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::json::{self, LongEscapes};

/// SET has at most this many members.
const MOST_OF_SET: usize = 64;

/// Reads labels: by each, its number. Digits that are no label, and escapes, do not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelReader {
    numbers: HashMap<Box<[u8]>, u64, RandomState>,
    is_set: bool,
}

impl LabelReader {
    pub fn of_enum(members: &[String]) -> Self {
        Self { numbers: numbered(members, |at| at as u64 + 1), is_set: false }
    }

    pub fn of_set(members: &[String]) -> Option<Self> {
        let is_one = members.len() <= MOST_OF_SET;
        is_one.then(|| Self { numbers: numbered(members, |at| 1 << at), is_set: true })
    }

    pub fn number(&self, labels: &[u8]) -> Option<i128> {
        if !self.is_set {
            let number = self.numbers.get(labels).copied();
            return number.or_else(|| labels.is_empty().then_some(0)).map(i128::from);
        }
        if labels.is_empty() {
            return Some(0);
        }
        let bit = |label| self.numbers.get(label).copied();
        let bits = labels.split(|&byte| byte == b',').try_fold(0, |bits, label| Some(bits | bit(label)?))?;
        Some(i128::from(bits))
    }
}

/// Of equal labels the first one counts.
fn numbered(members: &[String], number: impl Fn(usize) -> u64) -> HashMap<Box<[u8]>, u64, RandomState> {
    members.iter().enumerate().rev().map(|(at, label)| (label.as_bytes().into(), number(at))).collect()
}

/// Writes numbers as labels; those without one do not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelWriter {
    members: Vec<Box<[u8]>>,
    is_set: bool,
}

impl LabelWriter {
    pub fn of_enum(members: &[String]) -> Self {
        Self { members: boxed(members), is_set: false }
    }

    pub fn of_set(members: &[String]) -> Option<Self> {
        (members.len() <= MOST_OF_SET).then(|| Self { members: boxed(members), is_set: true })
    }

    pub fn print(&self, number: i128, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        if self.is_set {
            return self.print_set(u64::try_from(number).ok()?, how, out);
        }
        if number == 0 {
            // The empty text, which no member may be.
            out.extend_from_slice(b"\"\"");
            return (!self.members.iter().any(|label| label.is_empty())).then_some(());
        }
        let label = self.members.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        json::print_text(label, how, out);
        Some(())
    }

    /// The labels of a bit map, as a list.
    pub fn print_list(&self, bits: u64, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        self.print_each(bits, [b'[', b']'], out, |label, out| json::print_text(label, how, out))
    }

    fn print_set(&self, bits: u64, how: LongEscapes, out: &mut Vec<u8>) -> Option<()> {
        self.print_each(bits, [b'"', b'"'], out, |label, out| {
            let quote = out.len();
            json::print_text(label, how, out);
            out.remove(quote);
            out.pop();
        })
    }

    /// The labels of a bit map with commas between them, and something around all.
    fn print_each(
        &self,
        bits: u64,
        around: [u8; 2],
        out: &mut Vec<u8>,
        print: impl Fn(&[u8], &mut Vec<u8>),
    ) -> Option<()> {
        let count = self.members.len();
        if count < MOST_OF_SET && bits >> count != 0 {
            return None;
        }
        out.push(around[0]);
        let mut is_first = true;
        for (at, label) in self.members.iter().enumerate() {
            if bits >> at & 1 == 0 {
                continue;
            }
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            print(label, out);
        }
        out.push(around[1]);
        Some(())
    }
}

fn boxed(members: &[String]) -> Vec<Box<[u8]>> {
    members.iter().map(|label| label.as_bytes().into()).collect()
}
