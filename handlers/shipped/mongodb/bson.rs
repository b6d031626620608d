//! Documents of BSON. A document is read in place and element by element: what is nested in it is only looked at
//! where it is asked for, so depth costs nothing.

use std::convert::TryFrom;

/// The kinds of values that the plugin uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Number(f64),
    Text(&'a [u8]),
    /// A document or an array.
    Document(&'a [u8]),
    Binary(&'a [u8]),
    Bool(bool),
    /// Milliseconds since 1970.
    Date(i64),
    Other,
}

impl<'a> Value<'a> {
    pub fn number(self) -> Option<f64> {
        match self {
            Value::Number(n) => Some(n),
            Value::Bool(b) => Some(f64::from(u8::from(b))),
            _ => None,
        }
    }
}

/// Visits the elements of a document. It returns None if the document is malformed.
pub fn visit<'a>(document: &'a [u8], mut each: impl FnMut(&'a [u8], Value<'a>)) -> Option<()> {
    let mut rest = Rest(document);
    if rest.size()? != document.len() {
        return None;
    }
    loop {
        let kind = rest.take(1)?[0];
        if kind == 0 {
            break;
        }
        let name = rest.name()?;
        each(name, rest.value(kind)?);
    }
    Some(()).filter(|_| rest.0.is_empty())
}

/// Returns the value of a field of a document.
pub fn field<'a>(document: &'a [u8], name: &str) -> Option<Value<'a>> {
    let mut found = None;
    visit(document, |n, value| {
        if found.is_none() && n == name.as_bytes() {
            found = Some(value);
        }
    })?;
    found
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.0.get(..n)?;
        self.0 = &self.0[n..];
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        <[u8; N]>::try_from(self.take(N)?).ok()
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_le_bytes(self.array()?))
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.i32()?).ok()
    }

    /// Takes bytes up to a zero byte, and it.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|b| *b == 0)?;
        let name = self.take(end)?;
        self.take(1)?;
        Some(name)
    }

    /// Takes a string with its length.
    fn text(&mut self) -> Option<&'a [u8]> {
        let size = self.size()?;
        match self.take(size)? {
            [text @ .., 0] => Some(text),
            _ => None,
        }
    }

    /// Takes something that begins with its whole length.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = Rest(self.0).size().filter(|n| *n >= 5)?;
        self.take(size)
    }

    fn value(&mut self, kind: u8) -> Option<Value<'a>> {
        let skipped = match kind {
            0x01 => return Some(Value::Number(f64::from_le_bytes(self.array()?))),
            0x02 => return Some(Value::Text(self.text()?)),
            0x03 | 0x04 => return Some(Value::Document(self.sized()?)),
            0x05 => {
                let size = self.size()?;
                self.take(1)?; // the subtype
                return Some(Value::Binary(self.take(size)?));
            }
            0x08 => return Some(Value::Bool(self.take(1)?[0] != 0)),
            0x09 => return Some(Value::Date(i64::from_le_bytes(self.array()?))),
            0x10 => return Some(Value::Number(self.i32()?.into())),
            0x12 => return Some(Value::Number(i64::from_le_bytes(self.array()?) as f64)),
            0x0b => {
                self.name()?;
                self.name()?;
                0
            }
            0x0c => {
                self.text()?;
                12
            }
            0x0d | 0x0e => {
                self.text()?;
                0
            }
            0x0f => {
                self.sized()?;
                0
            }
            0x06 | 0x0a | 0x7f | 0xff => 0,
            0x07 => 12,
            0x11 => 8,
            0x13 => 16,
            _ => return None,
        };
        self.take(skipped)?;
        Some(Value::Other)
    }
}

/// A document that is written.
pub struct Document(Vec<u8>);

impl Document {
    pub fn new() -> Document {
        Document(vec![0; 4])
    }

    fn add(mut self, kind: u8, name: &str, value: &[&[u8]]) -> Document {
        self.0.push(kind);
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        self.0.extend_from_slice(&value.concat());
        self
    }

    pub fn int(self, name: &str, value: i32) -> Document {
        self.add(0x10, name, &[&value.to_le_bytes()])
    }

    pub fn flag(self, name: &str, value: bool) -> Document {
        self.add(0x08, name, &[&[value.into()]])
    }

    pub fn text(self, name: &str, value: &str) -> Document {
        self.add(0x02, name, &[&(value.len() as u32 + 1).to_le_bytes(), value.as_bytes(), &[0]])
    }

    pub fn binary(self, name: &str, value: &[u8]) -> Document {
        self.add(0x05, name, &[&(value.len() as u32).to_le_bytes(), &[0], value])
    }

    pub fn document(self, name: &str, value: Document) -> Document {
        self.add(0x03, name, &[&value.bytes()])
    }

    pub fn bytes(mut self) -> Vec<u8> {
        self.0.push(0);
        let size = (self.0.len() as u32).to_le_bytes();
        self.0[..4].copy_from_slice(&size);
        self.0
    }
}
