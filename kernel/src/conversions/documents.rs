//! JSON columns and vectors: text that holds JSON itself.

use crate::json;
use crate::token::Kind;

/// How deeply values may be nested.
const DEEPEST: usize = 100;

/// Whether a text is one JSON value, with nothing around it.
pub fn is_document(text: &[u8]) -> bool {
    value(text, DEEPEST).is_some_and(<[u8]>::is_empty)
}

fn without_space(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    &text[start.unwrap_or(text.len())..]
}

/// What stands behind the value at the beginning of a text.
fn value(text: &[u8], depth: usize) -> Option<&[u8]> {
    let (end, is_object) = match text.first()? {
        b'{' => (b'}', true),
        b'[' => (b']', false),
        _ => return json::token(text).map(|(_, rest)| rest),
    };
    let depth = depth.checked_sub(1)?;
    let mut rest = without_space(&text[1..]);
    if rest.first() == Some(&end) {
        return Some(&rest[1..]);
    }
    loop {
        if is_object {
            let (name, behind) = json::token(rest)?;
            if name.kind != Kind::Text {
                return None;
            }
            rest = without_space(without_space(behind).strip_prefix(b":")?);
        }
        rest = without_space(value(rest, depth)?);
        match rest.split_first()? {
            (b',', behind) => rest = without_space(behind),
            (byte, behind) if *byte == end => return Some(behind),
            _ => return None,
        }
    }
}

/// JSON without space between its parts; None if it is not certain what is between them.
pub fn compact(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match byte {
            b'"' => {
                let length = string_length(rest)?;
                out.extend_from_slice(&rest[..length]);
                &rest[length..]
            }
            b' ' | b'\t' | b'\n' | b'\r' => behind,
            b'!'..=b'~' if byte != b'\\' => {
                out.push(byte);
                behind
            }
            _ => return None,
        };
    }
    Some(out)
}

fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether a text is a vector as TiDB prints it: `[1,-2.5]`.
pub fn is_vector(text: &[u8]) -> bool {
    let Some(numbers) = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")) else {
        return false;
    };
    let part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E');
    let is_number = |number: &[u8]| !number.is_empty() && number.iter().all(part);
    numbers.is_empty() || numbers.split(|&byte| byte == b',').all(is_number)
}
