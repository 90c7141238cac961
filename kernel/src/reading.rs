//! Templates, read from the tuples of `relay.templates.ops`.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use crate::avro::AvroOp;
use crate::conversions::{Parameter, Read, Write};
use crate::names::Names;
use crate::ops::{
    Bytes, Calculation, Change, Choice, Condition, How, Integer, Member, Members, Put, Repeated, Slots,
    Source, SourceOp, SourceStep, Step, Target, TargetMessage, TargetOp, TargetStep, Template, Unordered,
};
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
    if let [Step::Multiply(factor @ 1..)] = number.steps[..] {
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
    pub fn read(template: &Bound<'_, PyAny>) -> PyResult<Self> {
        let fields = Fields::of(template)?;
        let mut slots = 0;
        let key = fields.source(0, &mut slots)?;
        let value = fields.source(1, &mut slots)?;
        let taken: Vec<_> = [&key, &value].into_iter().flatten().flat_map(taken).collect();
        let conditions = together(fields.each(2, |condition| condition.condition(slots))?);
        let mut met = Vec::new();
        let mut finished = |mut target: Target| {
            share(&mut target, &mut met);
            with_spans(target, &taken)
        };
        let mut target = |fields: &Fields<'_>, index: usize| -> PyResult<TargetMessage> {
            let key = fields.target(index, slots)?.map(&mut finished);
            let value = fields.target(index + 1, slots)?.map(&mut finished);
            Ok(TargetMessage { key, value })
        };
        let mut targets = vec![target(&fields, 3)?];
        targets.extend(fields.each(6, |more| target(&more, 0))?);
        let (most_bytes, hash) = (fields.get(5)?, template.hash()?);
        Ok(Self { key, value, conditions, targets, most_bytes, hash })
    }
}

/// Let ops that write values alike share what says how.
fn share(target: &mut Target, met: &mut Vec<Arc<How>>) {
    for TargetStep { op, .. } in &mut target.steps {
        match op {
            TargetOp::Put(put) => share_how(put, met),
            TargetOp::Sized(_, inside) => share(inside, met),
            TargetOp::Changed(members) => {
                for Change { old, new, .. } in members {
                    share_how(old, met);
                    share_how(new, met);
                }
            }
            _ => {}
        }
    }
}

fn share_how(put: &mut Put, met: &mut Vec<Arc<How>>) {
    match met.iter().find(|how| **how == put.how) {
        Some(how) => put.how = Arc::clone(how),
        None => met.push(Arc::clone(&put.how)),
    }
}

fn meaningless(what: &str) -> PyErr {
    PyValueError::new_err(what.to_owned())
}

/// The fields of a named tuple; the last one is its tag.
struct Fields<'py>(Bound<'py, PyTuple>);

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

    fn tag(&self) -> PyResult<String> {
        self.get(self.0.len().saturating_sub(1))
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
        Ok(match fields.tag()?.as_str() {
            "plain" => match fields.get::<String>(0)?.as_str() {
                "null" => Self::Null,
                "boolean" => Self::Boolean,
                "int" => Self::Int,
                "long" => Self::Long,
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
            "items" => Self::Items(Box::new(Self::read(&fields.item(0)?)?)),
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
    fn source(&self, index: usize, slots: &mut usize) -> PyResult<Option<Source>> {
        if self.item(index)?.is_none() {
            return Ok(None);
        }
        self.source_of(index, slots).map(Some)
    }

    fn source_of(&self, index: usize, slots: &mut usize) -> PyResult<Source> {
        let (steps, end) = self.steps(index, |op| op.source_op(slots))?;
        let steps = steps.into_iter().map(|(text, op)| SourceStep { text, op }).collect();
        Ok(Source { steps, end })
    }

    /// Read ops, each with the constants before it, and the constants behind all.
    fn steps<T>(
        &self,
        index: usize,
        mut read: impl FnMut(&Fields<'py>) -> PyResult<T>,
    ) -> PyResult<(Vec<(Bytes, T)>, Bytes)> {
        let mut steps = Vec::new();
        let mut text = Vec::new();
        for op in Fields::of(&self.item(index)?)?.0.iter() {
            let op = Fields::of(&op)?;
            if op.tag()? == "constant" {
                text.extend_from_slice(&op.bytes(0)?);
            } else {
                steps.push((std::mem::take(&mut text).into(), read(&op)?));
            }
        }
        steps.shrink_to_fit();
        Ok((steps, text.into()))
    }

    fn source_op(&self, slots: &mut usize) -> PyResult<SourceOp> {
        let op = match self.tag()?.as_str() {
            "take" => SourceOp::Take(self.kinds(0)?),
            "one-of" => SourceOp::OneOf(self.texts(0)?.into()),
            "members" => SourceOp::Members(Box::new(self.members()?)),
            "unordered" => SourceOp::Unordered(Box::new(unordered(self.texts(0)?)?)),
            "length" => SourceOp::Length(self.width(0)?),
            "repeated" => SourceOp::Repeated(Box::new(self.repeated()?)),
            _ => return Err(meaningless("no op of a source has this name")),
        };
        *slots += match &op {
            SourceOp::Take(_) => 1,
            SourceOp::Members(members) => members.each.len(),
            SourceOp::Repeated(repeated) => repeated.width,
            _ => 0,
        };
        Ok(op)
    }

    fn repeated(&self) -> PyResult<Repeated> {
        let (between, mut width) = (self.bytes(1)?, 0);
        let ops = self.source_of(0, &mut width)?;
        let is_wrong = |step: &SourceStep| matches!(step.op, SourceOp::Length(_) | SourceOp::Repeated(_));
        if between.is_empty() || ops.steps.iter().any(is_wrong) {
            return Err(meaningless("a round has no lengths and no rounds inside, and something between"));
        }
        Ok(Repeated { ops, between, width })
    }

    fn kinds(&self, index: usize) -> PyResult<Kinds> {
        let mut kinds = Kinds::default();
        for name in self.get::<Vec<String>>(index)? {
            kinds.add(Kind::from_name(&name).ok_or_else(|| meaningless("no kind has this name"))?);
        }
        Ok(kinds)
    }

    fn members(&self) -> PyResult<Members> {
        Ok(Members { each: self.each(0, |member| member.member())?, end: self.bytes(1)? })
    }

    fn member(&self) -> PyResult<Member> {
        let name = [b",", &*self.bytes(0)?].concat().into();
        Ok(Member { name, kinds: self.kinds(1)? })
    }

    fn width(&self, index: usize) -> PyResult<usize> {
        let width = self.get(index)?;
        if (1..=8).contains(&width) { Ok(width) } else { Err(meaningless("a number has 1 to 8 bytes")) }
    }
}

fn unordered(given: Vec<Bytes>) -> PyResult<Unordered> {
    // Those that begin alike stand together then.
    let mut members = given.clone();
    members.sort_unstable();
    let mut starts = vec![0; members.len()];
    let mut round = Vec::new();
    for member in &given {
        if let Ok(place) = members.binary_search(member) {
            starts[place] = u32::try_from(round.len())?;
        }
        round.extend_from_slice(member);
        round.push(b',');
    }
    let length = round.len().saturating_sub(1);
    round.extend_from_within(..);
    let names = Names::new(&members)
        .ok_or_else(|| meaningless("a member has no colon, or members are found too slowly"))?;
    Ok(Unordered { members, names, round: round.into(), starts, length })
}

fn one_begins_another(texts: &[Bytes]) -> bool {
    let mut sorted: Vec<&Bytes> = texts.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[1].starts_with(pair[0]))
}

/// What ops of the target are.
impl<'py> Fields<'py> {
    fn target(&self, index: usize, slots: usize) -> PyResult<Option<Target>> {
        if self.item(index)?.is_none() {
            return Ok(None);
        }
        self.target_of(index, |op| op.target_op(slots)).map(Some)
    }

    fn target_of(
        &self,
        index: usize,
        read: impl FnMut(&Fields<'py>) -> PyResult<TargetOp>,
    ) -> PyResult<Target> {
        let (steps, end) = self.steps(index, read)?;
        let steps = steps.into_iter().map(|(text, op)| TargetStep { text, op }).collect();
        Ok(Target { steps, end })
    }

    fn target_op(&self, slots: usize) -> PyResult<TargetOp> {
        if self.tag()? != "sized" {
            return self.flat_op(slots);
        }
        Ok(TargetOp::Sized(self.width(0)?, Box::new(self.target_of(1, |op| op.flat_op(slots))?)))
    }

    /// An op that has no others inside.
    fn flat_op(&self, slots: usize) -> PyResult<TargetOp> {
        Ok(match self.tag()?.as_str() {
            "put" => TargetOp::Put(self.put(slots)?),
            "number" => TargetOp::Number(self.number(slots)?),
            "changed" => TargetOp::Changed(self.each(0, |member| member.change(slots))?),
            "choice" => TargetOp::Choice(Box::new(self.choice(slots)?)),
            _ => return Err(meaningless("no op of a target has this name here")),
        })
    }

    fn put(&self, slots: usize) -> PyResult<Put> {
        let read = self.conversion(1, Read::new)?;
        let write = self.conversion(2, Write::new)?;
        let null = self.optional(3, bytes)?;
        let lossy = self.conversion(5, Write::new)?;
        let (long_escapes, adds, null_adds) = (self.get(4)?, self.get(6)?, self.get(7)?);
        let how = How { read, write, null, long_escapes, lossy, adds, null_adds };
        Ok(Put { slots: self.slots(0, slots)?, how: Arc::new(how) })
    }

    fn number(&self, slots: usize) -> PyResult<Vec<Calculation>> {
        let mut sum = vec![self.calculation(0, 1, slots)?];
        sum.extend(self.each(2, |plus| plus.calculation(0, 1, slots))?);
        Ok(sum)
    }

    fn change(&self, slots: usize) -> PyResult<Change> {
        let put = |index: usize| Fields::of(&self.item(index)?)?.put(slots);
        let (old, new) = (put(1)?, put(2)?);
        let same = old.how == new.how;
        Ok(Change { name: self.bytes(0)?, old, new, same })
    }

    fn pair(&self, slots: usize) -> PyResult<(Put, Put)> {
        let put = |index: usize| Fields::of(&self.item(index)?)?.put(slots);
        Ok((put(0)?, put(1)?))
    }

    fn choice(&self, slots: usize) -> PyResult<Choice> {
        Ok(Choice {
            slots: self.slots(0, slots)?,
            null: self.bytes(1)?,
            small: self.bytes(2)?,
            large: self.bytes(3)?,
            least: self.get(4)?,
        })
    }

    fn condition(&self, slots: usize) -> PyResult<Condition> {
        Ok(match self.tag()?.as_str() {
            "above" => within(self.calculation(0, 2, slots)?, self.get(1)?, i128::MAX),
            "below" => within(self.calculation(0, 2, slots)?, i128::MIN, self.get(1)?),
            "same" => Condition::Same(slot(self.get(0)?, slots)?, slot(self.get(1)?, slots)?),
            "fits" => Condition::Fits(Fields::of(&self.item(0)?)?.put(slots)?),
            "differ" => Condition::Differ(self.each(0, |pair| pair.pair(slots))?),
            "filled" => Condition::Filled(slot(self.get(0)?, slots)?),
            "among" => Condition::Among {
                slots: vec![slot(self.get(0)?, slots)?],
                tokens: self.sorted_tokens(1)?,
                is_one: self.get(2)?,
            },
            _ => return Err(meaningless("no condition has this name")),
        })
    }

    fn slots(&self, index: usize, slots: usize) -> PyResult<Slots> {
        let found = self.get::<Vec<i64>>(index)?.into_iter().map(|number| slot(number, slots));
        let found = found.collect::<PyResult<Vec<_>>>()?;
        Ok(if let [slot] = *found { Slots::One(slot) } else { Slots::Several(Box::new(found)) })
    }

    fn calculation(&self, number: usize, steps: usize, slots: usize) -> PyResult<Calculation> {
        let slot = match self.get(number)? {
            -1 => Integer::Offset,
            -2 => Integer::TimeMs,
            number => Integer::Slot(slot(number, slots)?),
        };
        let mut steps = self.each(steps, |step| step.step())?;
        steps.retain(|step| *step != Step::Multiply(1));
        Ok(Calculation { slot, steps })
    }

    fn step(&self) -> PyResult<Step> {
        let operator: String = self.get(0)?;
        let operand: i128 = self.get(1)?;
        let bits = u32::try_from(operand).ok().filter(|&bits| bits < i128::BITS);
        let step = match operator.as_str() {
            "+" => Some(Step::Add(operand)),
            "-" => Some(Step::Subtract(operand)),
            "*" => Some(Step::Multiply(operand)),
            "//" => (operand != 0).then(|| divide(operand)),
            "%" => (operand != 0).then_some(Step::Remainder(operand)),
            "<<" => bits.map(Step::Left),
            ">>" => bits.map(Step::Right),
            "clock" => i64::try_from(operand)
                .ok()
                .filter(|ahead| ahead.unsigned_abs() < DAY_SECONDS)
                .map(Step::Clock),
            _ => None,
        };
        step.ok_or_else(|| meaningless("no such step"))
    }

    /// The conversion that `make` knows by name and parameters.
    fn conversion<T>(&self, index: usize, make: fn(&str, &[Parameter]) -> Option<T>) -> PyResult<Option<T>> {
        self.optional(index, |conversion| {
            let fields = Fields::of(conversion)?;
            let name: String = fields.get(0)?;
            let parameters =
                fields.0.iter().skip(1).map(|each| parameter(&each)).collect::<PyResult<Vec<_>>>()?;
            make(&name, &parameters).ok_or_else(|| meaningless("no conversion has this name and parameters"))
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

fn divide(by: i128) -> Step {
    let is_power = |digits: &u8| 10_i128.pow(u32::from(*digits)) == by;
    (1..MOST_DROPPED).find(is_power).map_or(Step::Divide(by), Step::DropDigits)
}

/// No wall clock is so far from UTC.
const DAY_SECONDS: u64 = 86_400;

/// Of a number of 64 bits no more can be.
const MOST_DROPPED: u8 = 19;

fn slot(number: i64, slots: usize) -> PyResult<usize> {
    let slot = usize::try_from(number).ok().filter(|&slot| slot < slots);
    slot.ok_or_else(|| meaningless("no such slot"))
}

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
