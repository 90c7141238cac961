//! Members of a JSON object in any order, found by their names.

use crate::json::{ONES, below};
use crate::ops::Bytes;
use crate::scan::begins;

/// Where members are that have a name; a table twice as large as it needs to be, so that most names have a
/// place of their own there.
pub struct Names {
    /// Where members with the same text up to the first colon begin and end; both 0 in empty places.
    places: Vec<(u32, u32)>,
}

impl Names {
    /// The names of members that are sorted; None if one has no colon.
    pub fn new(members: &[Bytes]) -> Option<Self> {
        let mut names = Self { places: vec![(0, 0); (2 * members.len()).next_power_of_two()] };
        let mut start = 0;
        for group in members.chunk_by(|one, other| name(one) == name(other)) {
            let end = start + group.len();
            let mut at = names.home(&group[0])?;
            while names.places[at] != (0, 0) {
                at = names.after(at);
            }
            names.places[at] = (u32::try_from(start).ok()?, u32::try_from(end).ok()?);
            start = end;
        }
        Some(names)
    }

    /// Which of the members a text begins with.
    pub fn find(&self, members: &[Bytes], text: &[u8]) -> Option<usize> {
        let mut at = self.home(text)?;
        loop {
            let &(start, end) = self.places.get(at)?;
            if end == 0 {
                return None;
            }
            let found = (start as usize..end as usize).find(|&place| begins(text, &members[place]));
            if found.is_some() {
                return found;
            }
            at = self.after(at);
        }
    }

    /// Where the name at the beginning of a text is looked for first.
    fn home(&self, text: &[u8]) -> Option<usize> {
        Some(hash_of_name(text)? as usize & (self.places.len() - 1))
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }
}

fn name(member: &[u8]) -> &[u8] {
    &member[..memchr::memchr(b':', member).unwrap_or(member.len())]
}

/// A number made of what stands before the first colon; None if there is no colon.
fn hash_of_name(text: &[u8]) -> Option<u64> {
    let mut hash = 0;
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let colons = below(word ^ (ONES * u64::from(b':')), 1);
        if colons != 0 {
            let before = (1 << (colons.trailing_zeros() & !7)) - 1;
            return Some(mixed(hash, word & before));
        }
        hash = mixed(hash, word);
        rest = behind;
    }
    let before = &rest[..rest.iter().position(|&byte| byte == b':')?];
    Some(mixed(hash, before.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))))
}

/// All bits of both numbers in the low ones.
fn mixed(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    product as u64 ^ (product >> 64) as u64
}
