//! Members of a JSON object in any order, found by their names.

use crate::json::{ONES, below};
use crate::scan::behind;

/// How many seeds are tried to find one by which members are found quickly.
const SEEDS: u64 = 8;
/// How many members are looked at, on average, until one is found.
const STEPS: usize = 4;
/// Members of few names may need more.
const FEW: usize = 64;

/// Where members are that have a name; a table twice as large as it needs to be, so that most names have a
/// place of their own there.
#[derive(PartialEq)]
pub struct Names {
    seed: u64,
    /// Where members with the same text up to the first colon begin and end; both 0 in empty places.
    places: Vec<(u32, u32)>,
}

impl Names {
    /// The names of members that are sorted. None if one has no colon, or if it takes too many steps to find
    /// all of them, whatever the seed is: then somebody has chosen the names so.
    pub fn new(members: &[&[u8]]) -> Option<Self> {
        (0..SEEDS).find_map(|seed| Self::with_seed(members, seed))
    }

    fn with_seed(members: &[&[u8]], seed: u64) -> Option<Self> {
        let mut names = Self { seed, places: vec![(0, 0); (2 * members.len()).next_power_of_two()] };
        let mut left = STEPS * members.len() + FEW;
        let mut start = 0;
        for group in members.chunk_by(|one, other| name(one) == name(other)) {
            let end = start + group.len();
            let mut at = names.home(group[0])?;
            // What it takes to find each member of the group, behind those of other groups.
            let mut before = 0;
            while let (first, last @ 1..) = names.places[at] {
                before += (last - first) as usize;
                at = names.after(at);
                left.checked_sub(before)?;
            }
            names.places[at] = (u32::try_from(start).ok()?, u32::try_from(end).ok()?);
            left = left.checked_sub(group.len() * before + group.len() * (group.len() + 1) / 2)?;
            start = end;
        }
        Some(names)
    }

    /// Where the members of each name begin and end, in hash order.
    pub fn places(&self) -> &[(u32, u32)] {
        &self.places
    }

    /// Which of the members a text begins with.
    pub fn find<'a>(&self, member: impl Fn(usize) -> Option<&'a [u8]>, text: &[u8]) -> Option<usize> {
        let mut at = self.home(text)?;
        loop {
            let &(start, end) = self.places.get(at)?;
            if end == 0 {
                return None;
            }
            let begins =
                |&place: &u32| member(place as usize).is_some_and(|member| behind(text, member).is_some());
            let found = (start..end).find(begins);
            if let Some(place) = found {
                return Some(place as usize);
            }
            at = self.after(at);
        }
    }

    /// Where the name at the beginning of a text is looked for first.
    fn home(&self, text: &[u8]) -> Option<usize> {
        Some(hash_of_name(self.seed, text)? as usize & (self.places.len() - 1))
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }
}

fn name(member: &[u8]) -> &[u8] {
    &member[..memchr::memchr(b':', member).unwrap_or(member.len())]
}

/// A number made of what stands before the first colon; None if there is no colon.
fn hash_of_name(seed: u64, text: &[u8]) -> Option<u64> {
    // A seed that is not in the low bits alone.
    let mut hash = seed.wrapping_mul(0xd6e8_feb8_6659_fd93);
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
#[inline]
fn mixed(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    product as u64 ^ (product >> 64) as u64
}
