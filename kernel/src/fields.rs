//! Fields of Protocol Buffers, and messages that are fields of one. None means that bytes are not written in the
//! shortest form, or not at all.

/// Set in each byte of a number that is followed by more.
const MORE: u8 = 0x80;
/// The last byte of a number of ten bytes has one bit.
const TENTH: u32 = 63;

/// A number, and what stands behind it.
#[inline]
pub fn varint(text: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = text.split_first()?;
    if first < MORE { Some((first.into(), rest)) } else { long_varint(u64::from(first & !MORE), rest) }
}

fn long_varint(mut number: u64, mut rest: &[u8]) -> Option<(u64, &[u8])> {
    for shift in (7..=TENTH).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        number |= u64::from(byte & !MORE) << shift;
        if byte < MORE {
            // A last byte of 0 is superfluous.
            return (byte > 0 && (shift < TENTH || byte == 1)).then_some((number, rest));
        }
    }
    None
}

/// The number of bytes that stand behind it.
#[inline]
pub fn size(text: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = varint(text)?;
    Some((usize::try_from(number).ok().filter(|&size| size <= rest.len())?, rest))
}

/// Append a number.
fn add_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= MORE.into() {
        out.push(number as u8 | MORE);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How messages stand together in a record; `relay.templates.ops.MessageFields`.
pub struct MessageFields {
    pub outer: u8,
    pub inner: u8,
    pub kind: u8,
    pub begin: u8,
    pub end: u8,
}

/// The messages of a record: what stands before the field with all of them, its numbers before the messages, and
/// each message as a field.
pub struct Packet<'a> {
    head: &'a [u8],
    numbers: &'a [u8],
    messages: Vec<(Role, &'a [u8])>,
}

/// What a message is to those beside it.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Begin,
    Other,
    End,
}

impl MessageFields {
    /// The messages of a record's value.
    pub fn of<'a>(&self, value: &'a [u8]) -> Option<Packet<'a>> {
        let body = behind_numbers(value, self.outer)?;
        let (size, rest) = self::size(body)?;
        (size == rest.len()).then_some(())?;
        let head = &value[..value.len() - body.len()];
        // The numbers end before the tag of the first message.
        let numbers_end = rest.len() - behind_numbers(rest, self.inner)?.len() - 1;
        let (numbers, mut fields) = rest.split_at(numbers_end);
        let mut messages = Vec::new();
        while let Some((&tag, behind)) = fields.split_first() {
            (tag == self.inner).then_some(())?;
            let (size, behind) = self::size(behind)?;
            let (message, others) = behind.split_at(size);
            messages.push((self.role(message)?, &fields[..fields.len() - others.len()]));
            fields = others;
        }
        Some(Packet { head, numbers, messages })
    }

    /// Some if a record's value is one message that is neither a begin nor an end.
    pub fn has_one(&self, value: &[u8]) -> Option<()> {
        let (_, rest) = self::size(behind_numbers(value, self.outer)?)?;
        let (size, message) = self::size(behind_numbers(rest, self.inner)?)?;
        (size == message.len() && self.role(message)? == Role::Other).then_some(())
    }

    /// The role of a message: its number of the field `kind`, which other fields may precede.
    fn role(&self, message: &[u8]) -> Option<Role> {
        let mut rest = message;
        loop {
            let (&tag, after) = rest.split_first()?;
            let (number, value) = varint(after)?;
            rest = match tag & (MORE | 7) {
                _ if tag == self.kind => break Some(self.role_of(number)),
                0 => value,
                2 => value.get(usize::try_from(number).ok()?..)?,
                _ => return None,
            }
        }
    }

    fn role_of(&self, kind: u64) -> Role {
        match kind {
            _ if kind == u64::from(self.begin) => Role::Begin,
            _ if kind == u64::from(self.end) => Role::End,
            _ => Role::Other,
        }
    }
}

/// What stands behind the tag of a field that has nothing but numbers before it.
fn behind_numbers(mut text: &[u8], tag: u8) -> Option<&[u8]> {
    loop {
        let (&first, rest) = text.split_first()?;
        if first == tag {
            return Some(rest);
        }
        // Fields of the first sixteen numbers, of which the values are numbers.
        (first & (MORE | 7) == 0).then_some(())?;
        (_, text) = varint(rest)?;
    }
}

/// Messages that belong together: an optional begin, the messages after it, and an optional end.
pub struct Group<'a> {
    begin: Option<&'a [u8]>,
    messages: &'a [(Role, &'a [u8])],
    end: Option<&'a [u8]>,
}

impl<'a> Group<'a> {
    /// The messages as fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let messages = self.messages.iter().map(|&(_, message)| message);
        self.begin.into_iter().chain(messages).chain(self.end)
    }
}

impl<'a> Packet<'a> {
    /// The groups of a record. A message without a begin and an end is a group of its own.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let mut rest = self.messages.as_slice();
        // How many of the next messages have neither.
        let mut alone = 0;
        std::iter::from_fn(move || {
            if alone == 0 {
                let &(first, text) = rest.first()?;
                let begin = (first == Role::Begin).then_some(text);
                let behind = &rest[usize::from(begin.is_some())..];
                let count = behind.iter().take_while(|(role, _)| *role == Role::Other).count();
                let (messages, others) = behind.split_at(count);
                let end = others.first().filter(|(role, _)| *role == Role::End).map(|(_, end)| *end);
                if begin.is_some() || end.is_some() {
                    rest = &others[usize::from(end.is_some())..];
                    return Some(Group { begin, messages, end });
                }
                alone = count;
            }
            alone -= 1;
            let (messages, others) = rest.split_at(1);
            rest = others;
            Some(Group { begin: None, messages, end: None })
        })
    }

    /// Call `visit` with a record's value for each message of a group, between its begin and its end. Before these,
    /// call it with the begin and the end alone. Returns false as soon as `visit` does.
    pub fn each(&self, group: &Group<'_>, value: &mut Vec<u8>, mut visit: impl FnMut(&[u8]) -> bool) -> bool {
        let &Group { begin, messages, end } = group;
        if begin.is_some() || end.is_some() {
            self.alone([begin, None, end].into_iter().flatten(), value);
            if !visit(value) {
                return false;
            }
        }
        messages.iter().all(|&(_, message)| {
            self.alone([begin, Some(message), end].into_iter().flatten(), value);
            visit(value)
        })
    }

    /// Write some of the messages as the value of a record.
    pub fn alone<'b>(&self, messages: impl Iterator<Item = &'b [u8]> + Clone, value: &mut Vec<u8>) {
        let size: usize = messages.clone().map(<[u8]>::len).sum();
        value.clear();
        value.extend_from_slice(self.head);
        add_varint((self.numbers.len() + size) as u64, value);
        value.extend_from_slice(self.numbers);
        messages.for_each(|message| value.extend_from_slice(message));
    }
}
