//! The basic encoding rules (X.690) of LDAP and SNMP.

pub const INTEGER: u8 = 0x02;
pub const OCTETS: u8 = 0x04;
pub const SEQUENCE: u8 = 0x30;

/// Returns an element with a tag.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut data = vec![tag];
    let size = content.len();
    match size {
        0..=0x7f => data.push(size as u8),
        0x80..=0xff => data.extend_from_slice(&[0x81, size as u8]),
        _ => data.extend_from_slice(&[0x83, (size >> 16) as u8, (size >> 8) as u8, size as u8]),
    }
    data.extend_from_slice(content);
    data
}

/// The rest of a message.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the tag and the content of the next element.
    pub fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, first) = (*self.0.first()?, usize::from(*self.0.get(1)?));
        let (size, start) = match first {
            0..=0x7f => (first, 2),
            0x81..=0x84 => {
                let digits = first & 0x7f;
                (self.0.get(2..2 + digits)?.iter().fold(0, |n, b| n << 8 | usize::from(*b)), 2 + digits)
            }
            _ => return None,
        };
        let content = self.0.get(start..start.checked_add(size)?)?;
        self.0 = &self.0[start + size..];
        Some((tag, content))
    }

    /// Returns the content of the next element if it has a tag.
    pub fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(t, _)| *t == tag).map(|(_, content)| content)
    }

    /// Returns an integer or an enumerated value that is not negative.
    pub fn number(&mut self, tag: u8) -> Option<u32> {
        let content = self.expect(tag)?;
        let fits = matches!(content.len(), 1..=4) && content[0] < 0x80;
        fits.then(|| content.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    }
}
