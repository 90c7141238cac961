//! Values that are printed as they came: what a read makes of a token and a write of that, without either.

use super::binary;
use super::temporal;
use super::{Read, Write};
use crate::json;
use crate::token::{Escapes, Kind, Token};

/// Whether a token that is not null is printed as it is. If not, it may be so all the same, or not fit.
pub fn is_unchanged(read: &Read, write: Option<&Write>, token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Integer => {
            json::short_integer(token.text).is_some_and(|number| number_stays(read, write, number))
        }
        Kind::Text if token.escapes == Escapes::None => text_stays(read, write, token.inside()),
        // What stands for a byte has its escapes only where there is no other way to write it.
        Kind::Text if token.escapes == Escapes::Canonical => {
            matches!((read, write), (Read::Latin1(None), Some(Write::Latin1)))
                && binary::is_latin1(token.text)
        }
        _ => false,
    }
}

fn number_stays(read: &Read, write: Option<&Write>, number: i64) -> bool {
    let number = i128::from(number);
    match (read, write) {
        (Read::Whole, None) | (Read::Unsigned64, Some(Write::Signed64)) => true,
        (Read::Year1900, None) => number != 1900,
        (Read::DateDays, Some(Write::DateDays { moves: false })) => temporal::is_day(number),
        (Read::DatetimeCount(micros, _), Some(Write::DatetimeUnits(up, down))) => {
            micros * up == *down && temporal::is_moment(number * micros)
        }
        (Read::Clock(_), Some(Write::TimeMicros)) => temporal::is_count_of_time(number),
        _ => false,
    }
}

fn text_stays(read: &Read, write: Option<&Write>, text: &[u8]) -> bool {
    match (read, write) {
        (Read::Latin1(None), Some(Write::Latin1)) => binary::is_latin1(text),
        (Read::Base64(length), write @ (None | Some(Write::Base64(_)))) => {
            let padded = if let Some(Write::Base64(padded)) = write { *padded } else { None };
            let least = length.unwrap_or(0).max(padded.unwrap_or(0));
            binary::size_of_base64(text).is_some_and(|size| size >= least)
        }
        (Read::Bits, Some(Write::Bits(size))) => binary::size_of_base64(text) == Some(*size),
        (Read::DecimalBytes(scale, most), Some(Write::Unscaled(same))) => {
            scale == same
                && binary::is_least_number(text)
                && binary::size_of_base64(text).is_some_and(|size| size <= *most)
        }
        (Read::DecimalBytes(scale, most), Some(Write::DecimalBytes(precision, same))) => {
            // A digit is worth more than 3.321 bits (log2 of 10).
            let is_within = |size: usize| size <= *most && (8 * size - 1) * 1000 <= precision * 3321;
            scale == same
                && binary::is_least_number(text)
                && binary::size_of_base64(text).is_some_and(is_within)
        }
        (Read::BitBytes, Some(Write::BitBytes(length))) => {
            length % 8 == 0 && binary::size_of_base64(text) == usize::try_from(length / 8).ok()
        }
        (Read::Zoned(read), Some(Write::TimestampIso(written, _))) => {
            let digits = temporal::digits_of_iso_timestamp(text);
            digits.is_some_and(|digits| [read, written].iter().all(|its| its.unwrap_or(digits) == digits))
        }
        _ => false,
    }
}
