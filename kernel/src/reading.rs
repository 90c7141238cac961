//! Templates, read from the tuples of `relay.templates.ops`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use crate::avro::{AvroOp, Entries};
use crate::conversions::{Parameter, Read, Write};
use crate::names::Names;
use crate::ops::{
    Arithmetic, Bytes, Calculation, Change, Choice, Condition, Constant, Constants, How, Integer, Member,
    Members, Part, Put, Repeated, Slots, SourceOp, Step, Steps, TargetMessage, TargetOp, Template, Text,
    Unordered,
};
use crate::sharing::Ways;
use crate::spans::{taken, with_spans};
use crate::token::{Kind, Kinds};

/// Conditions of which those on one number are one, and those of the same tokens.
fn together(conditions: Vec<Condition>) -> Vec<Condition> {
    let mut kept: Vec<Condition> = Vec::with_capacity(conditions.len());
    for mut condition in conditions {
        if let Condition::Among { slots, tokens, is_one } = &mut condition {
            let same = kept.iter_mut().find_map(|other| match other {
                Condition::Among { slots, tokens: its, is_one: too } if its == tokens && too == is_one => {
                    Some(slots)
                }
                _ => None,
            });
            if let Some(others) = same {
                others.append(slots);
                continue;
            }
        }
        if let Condition::Within(number, floor, end) = &condition {
            let same = kept.iter_mut().find_map(|other| match other {
                Condition::Within(its, above, below) if its == number => Some((above, below)),
                _ => None,
            });
            if let Some((above, below)) = same {
                *above = (*above).max(*floor);
                *below = (*below).min(*end);
                continue;
            }
        }
        kept.push(condition);
    }
    kept
}

/// A condition on a number, without the multiplication that it begins with: by less than 64 bits it comes to no
/// more than 128, whatever the number is.
fn within(mut number: Calculation, mut floor: i128, mut end: i128) -> Condition {
    if let [Arithmetic::Multiply(factor @ 1..)] = number.steps[..] {
        if i64::try_from(factor).is_ok() {
            number.steps.clear();
            floor = floor.div_euclid(factor);
            end = end.checked_add(factor - 1).unwrap_or(i128::MAX).div_euclid(factor);
        }
    }
    Condition::Within(number, floor, end)
}

impl Template {
    /// Read a template. ValueError for one that means nothing, or has a conversion that is not here.
    pub fn read(template: &Bound<'_, PyAny>, ways: &mut Ways) -> PyResult<Self> {
        let fields = Fields::of(template)?;
        let mut reader = Reader { slots: 0, constants: Vec::new(), ways };
        let key = fields.part(0, |op, reader| op.source_op(reader), &mut reader)?;
        let value = fields.part(1, |op, reader| op.source_op(reader), &mut reader)?;
        let taken: Vec<_> = [&key, &value].into_iter().flatten().flat_map(taken).collect();
        let conditions = together(fields.each(2, |condition| condition.condition(&mut reader))?);
        let mut target = |fields: &Fields<'_>, index: usize| -> PyResult<TargetMessage> {
            let mut part = |index: usize| -> PyResult<_> {
                let part = fields.part(index, |op, reader| op.target_op(reader), &mut reader)?;
                Ok(part.map(|part| with_spans(part, &taken)))
            };
            Ok(TargetMessage { key: part(index)?, value: part(index + 1)? })
        };
        let mut targets = vec![target(&fields, 3)?];
        targets.extend(fields.each(6, |more| target(&more, 0))?);
        let (most_bytes, hash) = (fields.get(5)?, template.hash()?);
        Ok(Self { key, value, conditions, targets, most_bytes, hash })
    }
}

/// What the ops of a template are read with.
struct Reader<'a> {
    /// How many there are in the source, as far as it is read.
    slots: usize,
    /// Of the part at hand.
    constants: Vec<u8>,
    ways: &'a mut Ways,
}

impl Reader<'_> {
    /// Add a constant to the part.
    fn constant(&mut self, text: &[u8]) -> PyResult<Constant> {
        let start = self.constants.len();
        self.constants.extend_from_slice(text);
        self.since(start)
    }

    /// What was added to the part as one constant.
    fn since(&self, start: usize) -> PyResult<Constant> {
        Ok(Constant { start: u32::try_from(start)?, end: u32::try_from(self.constants.len())? })
    }

    fn slot(&self, number: i64) -> PyResult<usize> {
        let slot = usize::try_from(number).ok().filter(|&slot| slot < self.slots);
        slot.ok_or_else(|| meaningless("no such slot"))
    }
}

pub(crate) fn meaningless(what: &str) -> PyErr {
    PyValueError::new_err(what.to_owned())
}

/// The fields of a named tuple; the last one is its tag.
struct Fields<'py>(Bound<'py, PyTuple>);

/// A text of Python's, which is compared and not copied.
struct Name<'py>(Bound<'py, PyString>);

impl Name<'_> {
    fn as_str(&self) -> PyResult<&str> {
        self.0.to_str().map_err(|_| meaningless("a name is not valid Unicode"))
    }
}

impl<'py> Fields<'py> {
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let tuple = object.cast::<PyTuple>().map_err(|_| meaningless("not a tuple"))?;
        Ok(Self(tuple.clone()))
    }

    fn item(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        self.0.get_item(index).map_err(|_| meaningless("a field is missing"))
    }

    fn get<T>(&self, index: usize) -> PyResult<T>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        self.item(index)?.extract().map_err(|_| meaningless("a field is of another type"))
    }

    fn tag(&self) -> PyResult<Name<'py>> {
        self.name(self.0.len().saturating_sub(1))
    }

    fn name(&self, index: usize) -> PyResult<Name<'py>> {
        let name = self.item(index)?.cast_into().map_err(|_| meaningless("a field is of another type"))?;
        Ok(Name(name))
    }

    fn bytes(&self, index: usize) -> PyResult<Bytes> {
        bytes(&self.item(index)?)
    }

    /// Read each tuple of a tuple.
    fn each<T>(&self, index: usize, mut read: impl FnMut(Fields<'py>) -> PyResult<T>) -> PyResult<Vec<T>> {
        let tuples = Fields::of(&self.item(index)?)?;
        let mut found = Vec::with_capacity(tuples.0.len());
        for tuple in tuples.0.iter() {
            found.push(read(Fields::of(&tuple)?)?);
        }
        Ok(found)
    }

    fn tokens(&self, index: usize) -> PyResult<Vec<Bytes>> {
        let tuple = Fields::of(&self.item(index)?)?;
        let mut found = Vec::with_capacity(tuple.0.len());
        for text in tuple.0.iter() {
            found.push(bytes(&text)?);
        }
        Ok(found)
    }

    fn sorted_tokens(&self, index: usize) -> PyResult<Vec<Bytes>> {
        let mut tokens = self.tokens(index)?;
        tokens.sort_unstable();
        Ok(tokens)
    }

    fn texts(&self, index: usize) -> PyResult<Vec<Bytes>> {
        let texts = self.tokens(index)?;
        if one_begins_another(&texts) {
            return Err(meaningless("one text begins another one"));
        }
        Ok(texts)
    }
}

impl AvroOp {
    /// Read how a value in Avro becomes JSON. ValueError for what means nothing.
    pub fn read(op: &Bound<'_, PyAny>) -> PyResult<Self> {
        let fields = Fields::of(op)?;
        Ok(match fields.tag()?.as_str()? {
            "plain" => match fields.name(0)?.as_str()? {
                "null" => Self::Null,
                "boolean" => Self::Boolean,
                "int" => Self::Int,
                "long" => Self::Long,
                "unsigned" => Self::Unsigned,
                "uint64" => Self::Uint64,
                "float" => Self::Float,
                "double" => Self::Double,
                "string" => Self::Text,
                "bytes" => Self::Binary,
                _ => return Err(meaningless("no primitive type of Avro has this name")),
            },
            "fixed" => Self::Fixed(fields.get(0)?),
            "symbols" => Self::Symbols(fields.tokens(0)?),
            "union" => Self::Union(fields.each(0, |branch| Self::read(branch.0.as_any()))?),
            "record" => Self::Record(fields.avro_fields()?),
            "branch" => Self::Branch(fields.get(0)?, Box::new(Self::read(&fields.item(1)?)?)),
            "nullable" => Self::Nullable(fields.bytes(0)?, Box::new(Self::read(&fields.item(1)?)?)),
            "items" => Self::Items(Box::new(Self::read(&fields.item(0)?)?)),
            "map" => {
                let entries = fields.each(0, |entry| Ok((entry.bytes(0)?, Self::read(&entry.item(1)?)?)))?;
                let entries = Entries::new(entries);
                Self::Map(Box::new(entries.ok_or_else(|| meaningless("two entries have the same name"))?))
            }
            _ => return Err(meaningless("no op of Avro has this name")),
        })
    }
}

impl Fields<'_> {
    /// Read the fields of a record, each with a brace or a comma before its name.
    fn avro_fields(&self) -> PyResult<Vec<(Bytes, AvroOp)>> {
        let mut mark: &[u8] = b"{";
        self.each(0, |field| {
            let name = [mark, &*field.bytes(0)?].concat().into();
            mark = b",";
            Ok((name, AvroOp::read(&field.item(1)?)?))
        })
    }
}

/// What ops of the source are.
impl<'py> Fields<'py> {
    /// Read a part of the source or of the target, if there is one.
    fn part<T>(
        &self,
        index: usize,
        read: impl FnMut(&Fields<'py>, &mut Reader<'_>) -> PyResult<T>,
        reader: &mut Reader<'_>,
    ) -> PyResult<Option<Part<T>>> {
        if self.item(index)?.is_none() {
            return Ok(None);
        }
        let ops = self.steps(index, read, reader)?;
        Ok(Some(Part { constants: Constants(std::mem::take(&mut reader.constants).into()), ops }))
    }

    /// Read ops, each with the constants before it, and the constants behind all.
    fn steps<T>(
        &self,
        index: usize,
        mut read: impl FnMut(&Fields<'py>, &mut Reader<'_>) -> PyResult<T>,
        reader: &mut Reader<'_>,
    ) -> PyResult<Steps<T>> {
        let mut steps = Vec::new();
        let mut start = reader.constants.len();
        for op in Fields::of(&self.item(index)?)?.0.iter() {
            let op = Fields::of(&op)?;
            if op.tag()?.as_str()? == "constant" {
                reader.constants.extend_from_slice(&op.bytes(0)?);
            } else {
                steps.push(Step { before: reader.since(start)?, op: read(&op, reader)? });
                start = reader.constants.len();
            }
        }
        steps.shrink_to_fit();
        Ok(Steps { steps, end: reader.since(start)? })
    }

    fn source_op(&self, reader: &mut Reader<'_>) -> PyResult<SourceOp> {
        let op = match self.tag()?.as_str()? {
            "take" => SourceOp::Take(self.kinds(0)?),
            "one-of" => SourceOp::OneOf(self.one_of(reader)?),
            "members" => SourceOp::Members(Box::new(self.members(reader)?)),
            "unordered" => SourceOp::Unordered(Box::new(unordered(&self.texts(0)?)?)),
            "length" => SourceOp::Length(self.width(0)?),
            "repeated" => SourceOp::Repeated(Box::new(self.repeated(reader)?)),
            "avro" => SourceOp::Avro(Box::new(self.avro_source()?)),
            "enter" => SourceOp::Enter,
            "leave" => SourceOp::Leave,
            "varint" => SourceOp::Varint,
            "text" => SourceOp::Text(Box::new(self.text(reader)?)),
            _ => return Err(meaningless("no op of a source has this name")),
        };
        reader.slots += match &op {
            SourceOp::Take(_) | SourceOp::Varint | SourceOp::Text(_) => 1,
            SourceOp::Members(members) => members.each.len(),
            SourceOp::Repeated(repeated) => repeated.width,
            SourceOp::Avro(value) => value.1.len(),
            _ => 0,
        };
        Ok(op)
    }

    fn one_of(&self, reader: &mut Reader<'_>) -> PyResult<Box<[Constant]>> {
        self.texts(0)?.iter().map(|text| reader.constant(text)).collect()
    }

    fn text(&self, reader: &mut Reader<'_>) -> PyResult<Text> {
        let mut instead = |index: usize| -> PyResult<Option<Constant>> {
            let text = self.item(index)?;
            if text.is_none() { Ok(None) } else { reader.constant(&bytes(&text)?).map(Some) }
        };
        let (null, empty) = (instead(1)?, instead(2)?);
        Ok(Text { head: reader.constant(&self.bytes(0)?)?, null, empty })
    }

    fn avro_source(&self) -> PyResult<(AvroOp, Vec<Kinds>)> {
        let op = AvroOp::read(&self.item(0)?)?;
        let mut kinds = Vec::new();
        op.tokens(&mut kinds).ok_or_else(|| meaningless("not a record of scalar values"))?;
        Ok((op, kinds))
    }

    fn repeated(&self, reader: &mut Reader<'_>) -> PyResult<Repeated> {
        let before = std::mem::take(&mut reader.slots);
        let ops = self.steps(0, |op, reader| op.source_op(reader), reader)?;
        let width = std::mem::replace(&mut reader.slots, before);
        let between = self.bytes(1)?;
        let is_wrong = |step: &Step<SourceOp>| {
            matches!(step.op, SourceOp::Length(_) | SourceOp::Repeated(_) | SourceOp::Avro(_))
        };
        if between.is_empty() || ops.steps.iter().any(is_wrong) {
            return Err(meaningless("a round has no lengths and no rounds inside, and something between"));
        }
        Ok(Repeated { ops, between: reader.constant(&between)?, width })
    }

    fn kinds(&self, index: usize) -> PyResult<Kinds> {
        let mut kinds = Kinds::default();
        let names = Fields::of(&self.item(index)?)?;
        for at in 0..names.0.len() {
            let kind = Kind::from_name(names.name(at)?.as_str()?);
            kinds.add(kind.ok_or_else(|| meaningless("no kind has this name"))?);
        }
        Ok(kinds)
    }

    fn members(&self, reader: &mut Reader<'_>) -> PyResult<Members> {
        let each = self.each(0, |member| member.member(reader))?;
        Ok(Members { each, end: reader.constant(&self.bytes(1)?)? })
    }

    fn member(&self, reader: &mut Reader<'_>) -> PyResult<Member> {
        let name = reader.constant(&[b",", &*self.bytes(0)?].concat())?;
        Ok(Member { name, kinds: self.kinds(1)? })
    }

    fn width(&self, index: usize) -> PyResult<usize> {
        let width = self.get(index)?;
        if (1..=8).contains(&width) { Ok(width) } else { Err(meaningless("a number has 1 to 8 bytes")) }
    }
}

fn unordered(texts: &[Bytes]) -> PyResult<Unordered> {
    let mut members = Vec::with_capacity(texts.len());
    let mut round = Vec::new();
    for text in texts {
        let start = u32::try_from(round.len())?;
        round.extend_from_slice(text);
        members.push(Constant { start, end: u32::try_from(round.len())? });
        round.push(b',');
    }
    let length = round.len().saturating_sub(1);
    round.extend_from_within(..);
    let round = Constants(round.into());
    // Those that begin alike stand together then.
    members.sort_unstable_by_key(|member| round.text(*member));
    let sorted: Vec<_> = members.iter().map(|member| round.text(*member)).collect();
    let names = Names::new(&sorted)
        .ok_or_else(|| meaningless("a member has no colon, or members are found too slowly"))?;
    Ok(Unordered { members, names, round, length })
}

fn one_begins_another(texts: &[Bytes]) -> bool {
    let mut sorted: Vec<&Bytes> = texts.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[1].starts_with(pair[0]))
}

/// What ops of the target are.
impl<'py> Fields<'py> {
    fn target_op(&self, reader: &mut Reader<'_>) -> PyResult<TargetOp> {
        if self.tag()?.as_str()? != "sized" {
            return self.flat_op(reader);
        }
        let ops = self.steps(1, |op, reader| op.flat_op(reader), reader)?;
        Ok(TargetOp::Sized(self.width(0)?, Box::new(ops)))
    }

    /// An op that has no others inside.
    fn flat_op(&self, reader: &mut Reader<'_>) -> PyResult<TargetOp> {
        Ok(match self.tag()?.as_str()? {
            "put" => TargetOp::Put(self.put(reader)?),
            "number" => TargetOp::Number(self.number(reader)?),
            "changed" => TargetOp::Changed(self.each(0, |member| member.change(reader))?),
            "choice" => TargetOp::Choice(Box::new(self.choice(reader)?)),
            "avro" => {
                let op = Fields::of(&self.item(1)?)?;
                if !matches!(op.tag()?.as_str()?, "put" | "number" | "choice") {
                    return Err(meaningless("not the op of one value"));
                }
                TargetOp::Avro(Box::new((AvroOp::read(&self.item(0)?)?, op.flat_op(reader)?)))
            }
            _ => return Err(meaningless("no op of a target has this name here")),
        })
    }

    fn put(&self, reader: &mut Reader<'_>) -> PyResult<Put> {
        let how = reader.ways.shared(&self.0.get_slice(1, self.0.len()), || self.how())?;
        Ok(Put { slots: self.slots(0, reader)?, how })
    }

    fn how(&self) -> PyResult<How> {
        Ok(How {
            read: self.conversion(1, Read::new)?,
            write: self.conversion(2, Write::new)?,
            null: self.optional(3, bytes)?,
            long_escapes: self.get(4)?,
            lossy: self.conversion(5, Write::new)?,
            adds: self.get(6)?,
            null_adds: self.get(7)?,
        })
    }

    fn number(&self, reader: &Reader<'_>) -> PyResult<Vec<Calculation>> {
        let mut sum = vec![self.calculation(0, 1, reader)?];
        sum.extend(self.each(2, |plus| plus.calculation(0, 1, reader))?);
        Ok(sum)
    }

    fn change(&self, reader: &mut Reader<'_>) -> PyResult<Change> {
        let name = reader.constant(&self.bytes(0)?)?;
        let mut put = |index: usize| Fields::of(&self.item(index)?)?.put(reader);
        let (old, new) = (put(1)?, put(2)?);
        let same = old.how == new.how;
        Ok(Change { name, old, new, same })
    }

    fn pair(&self, reader: &mut Reader<'_>) -> PyResult<(Put, Put)> {
        let mut put = |index: usize| Fields::of(&self.item(index)?)?.put(reader);
        Ok((put(0)?, put(1)?))
    }

    fn choice(&self, reader: &mut Reader<'_>) -> PyResult<Choice> {
        Ok(Choice {
            slots: self.slots(0, reader)?,
            null: reader.constant(&self.bytes(1)?)?,
            small: reader.constant(&self.bytes(2)?)?,
            large: reader.constant(&self.bytes(3)?)?,
            least: self.get(4)?,
        })
    }

    fn condition(&self, reader: &mut Reader<'_>) -> PyResult<Condition> {
        Ok(match self.tag()?.as_str()? {
            "above" => within(self.calculation(0, 2, reader)?, self.get(1)?, i128::MAX),
            "below" => within(self.calculation(0, 2, reader)?, i128::MIN, self.get(1)?),
            "equal" => {
                let sum = |index: usize| Fields::of(&self.item(index)?)?.number(reader);
                Condition::Equal(sum(0)?, sum(1)?, self.get(2)?)
            }
            "same" => Condition::Same(reader.slot(self.get(0)?)?, reader.slot(self.get(1)?)?),
            "fits" => Condition::Fits(Fields::of(&self.item(0)?)?.put(reader)?),
            "differ" => Condition::Differ(self.each(0, |pair| pair.pair(reader))?),
            "filled" => Condition::Filled(reader.slot(self.get(0)?)?),
            "among" => Condition::Among {
                slots: vec![reader.slot(self.get(0)?)?],
                tokens: self.sorted_tokens(1)?,
                is_one: self.get(2)?,
            },
            _ => return Err(meaningless("no condition has this name")),
        })
    }

    fn slots(&self, index: usize, reader: &Reader<'_>) -> PyResult<Slots> {
        let found = self.get::<Vec<i64>>(index)?.into_iter();
        let found = found.map(|number| Ok(u32::try_from(reader.slot(number)?)?));
        let found = found.collect::<PyResult<Vec<_>>>()?;
        Ok(match found[..] {
            [slot] => Slots::One([slot]),
            [first, second] => Slots::Two([first, second]),
            _ => Slots::Several(Box::new(found)),
        })
    }

    fn calculation(&self, number: usize, steps: usize, reader: &Reader<'_>) -> PyResult<Calculation> {
        let slot = match self.get(number)? {
            -1 => Integer::Offset,
            -2 => Integer::TimeMs,
            number => Integer::Slot(reader.slot(number)?),
        };
        let mut steps = self.each(steps, |step| step.step())?;
        let slot = match (slot, steps.first()) {
            (Integer::Slot(slot), Some(&Arithmetic::Datetime(ahead))) => {
                steps.remove(0);
                Integer::Datetime { slot, ahead }
            }
            (slot, _) => slot,
        };
        if steps.iter().any(|step| matches!(step, Arithmetic::Datetime(_))) {
            return Err(meaningless("a step `datetime` is not the first one of a text's slot"));
        }
        steps.retain(|step| *step != Arithmetic::Multiply(1));
        Ok(Calculation { slot, steps })
    }

    fn step(&self) -> PyResult<Arithmetic> {
        let operator = self.name(0)?;
        let operand: i128 = self.get(1)?;
        let bits = u32::try_from(operand).ok().filter(|&bits| bits < i128::BITS);
        let step = match operator.as_str()? {
            "+" => Some(Arithmetic::Add(operand)),
            "-" => Some(Arithmetic::Subtract(operand)),
            "*" => Some(Arithmetic::Multiply(operand)),
            "//" => (operand != 0).then(|| divide(operand)),
            "%" => (operand != 0).then_some(Arithmetic::Remainder(operand)),
            "<<" => bits.map(Arithmetic::Left),
            ">>" => bits.map(Arithmetic::Right),
            "clock" => ahead(operand).map(Arithmetic::Clock),
            "datetime" => ahead(operand).map(Arithmetic::Datetime),
            _ => None,
        };
        step.ok_or_else(|| meaningless("no such step"))
    }

    /// The conversion that `make` knows by name and parameters.
    fn conversion<T>(&self, index: usize, make: fn(&str, &[Parameter]) -> Option<T>) -> PyResult<Option<T>> {
        self.optional(index, |conversion| {
            let fields = Fields::of(conversion)?;
            let name = fields.name(0)?;
            let parameters =
                fields.0.iter().skip(1).map(|each| parameter(&each)).collect::<PyResult<Vec<_>>>()?;
            make(name.as_str()?, &parameters)
                .ok_or_else(|| meaningless("no conversion has this name and parameters"))
        })
    }

    fn optional<T>(
        &self,
        index: usize,
        read: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let item = self.item(index)?;
        if item.is_none() { Ok(None) } else { read(&item).map(Some) }
    }
}

fn divide(by: i128) -> Arithmetic {
    let is_power = |digits: &u8| 10_i128.pow(u32::from(*digits)) == by;
    (1..MOST_DROPPED).find(is_power).map_or(Arithmetic::Divide(by), Arithmetic::DropDigits)
}

/// By how many seconds a clock is ahead of UTC; None if it cannot be that far.
fn ahead(operand: i128) -> Option<i64> {
    i64::try_from(operand).ok().filter(|ahead| ahead.unsigned_abs() < DAY_SECONDS)
}

/// No wall clock is so far from UTC.
const DAY_SECONDS: u64 = 86_400;

/// A 64-bit number has no more digits to drop.
const MOST_DROPPED: u8 = 19;

fn bytes(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let bytes = object.cast::<PyBytes>().map_err(|_| meaningless("a text is not of bytes"))?;
    Ok(bytes.as_bytes().into())
}

fn parameter(object: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    if object.is_none() {
        return Ok(Parameter::None);
    }
    if object.is_instance_of::<PyInt>() {
        return object.extract().map(Parameter::Integer).map_err(|_| meaningless("a parameter is too large"));
    }
    if object.is_instance_of::<PyString>() {
        return object.extract().map(Parameter::Text);
    }
    if object.is_instance_of::<PyBytes>() {
        return Ok(Parameter::Bytes(bytes(object)?.into()));
    }
    object.extract().map(Parameter::Texts).map_err(|_| meaningless("a parameter is of another type"))
}
