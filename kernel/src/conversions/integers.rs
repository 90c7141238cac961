//! Integers.

use super::Value;
use crate::json;

/// One of 64 bits, of a text without a sign before it, or `-`.
pub fn of_text<'a>(text: &[u8]) -> Option<Value<'a>> {
    json::integer(text).map(Value::Integer)
}

/// A signed number as the unsigned one of the same 64 bits.
pub fn unsigned(number: i128) -> i128 {
    if number < 0 { number + (1 << 64) } else { number }
}

/// An unsigned number as the signed one of the same 64 bits.
pub fn signed(number: i128) -> Option<i128> {
    match number {
        0..=0x7fff_ffff_ffff_ffff => Some(number),
        0x8000_0000_0000_0000..=0xffff_ffff_ffff_ffff => Some(number - (1 << 64)),
        _ => None,
    }
}

/// A YEAR's text with another year 0: four digits stay.
pub fn year_text<'a>(zero: &'a [u8], text: &'a [u8]) -> Option<&'a [u8]> {
    if text.len() == 4 && text != b"0000" && text.iter().all(u8::is_ascii_digit) {
        return Some(text);
    }
    if text == b"0000" {
        return Some(zero);
    }
    let year = json::integer(text)?;
    Some(if year == 0 { zero } else { text })
}

/// The least bytes of a number's two's complement, the highest first: where they begin.
pub fn big_endian(number: i128) -> ([u8; 16], usize) {
    let size = if number < 0 { !number } else { number };
    let bytes = (128 - size.leading_zeros() as usize) / 8 + 1;
    (number.to_be_bytes(), 16 - bytes)
}

/// The number of its two's complement, the highest byte first. None beyond 128 bits.
pub fn of_big_endian(bytes: &[u8]) -> Option<i128> {
    let filling = if *bytes.first()? > 0x7f { 0xff } else { 0 };
    let mut number = [filling; 16];
    number.get_mut(16_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(number))
}

/// A BIT's number of its bytes, the lowest first. None beyond 64 bits.
pub fn of_bits(bytes: &[u8]) -> Option<i128> {
    let mut number = [0; 8];
    number.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from(u64::from_le_bytes(number)))
}

/// Read a BIT from big-endian bytes. None beyond 64 bits.
pub fn of_bit_bytes(bytes: &[u8]) -> Option<i128> {
    let mut number = [0; 8];
    number.get_mut(8_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from(u64::from_be_bytes(number)))
}

/// The big-endian bytes of a BIT of `length` bits, and the index of the first one. None if the number does
/// not fit.
pub fn bit_bytes(length: u32, number: i128) -> Option<([u8; 8], usize)> {
    let number = u64::try_from(number).ok()?;
    let size = 8_usize.checked_sub(usize::try_from(length.div_ceil(8)).ok()?)?;
    (u64::BITS - number.leading_zeros() <= length).then_some((number.to_be_bytes(), size))
}

/// So many bytes of a BIT's number, the lowest first. None if it needs more.
pub fn bits(size: usize, number: i128) -> Option<([u8; 8], usize)> {
    let bytes = u64::try_from(number).ok()?.to_le_bytes();
    bytes.get(size..)?.iter().all(|&byte| byte == 0).then_some((bytes, size))
}
