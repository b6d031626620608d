//! The compression of headers of HTTP/2, RFC 7541. The encoder sends every field literally. What the decoder
//! makes of a block is bounded.

use std::collections::VecDeque;

/// The most bytes of the dynamic table, the default of HTTP/2.
const MAX_TABLE: usize = 4096;

/// The most bytes of the fields of a block. A block of a few bytes can name a long field many times.
const MAX_FIELDS: usize = 64 << 10;

/// A name and a value.
pub type Field = (Vec<u8>, Vec<u8>);

/// Appends a field that no table keeps.
pub fn encode(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0x10);
    for text in [name, value] {
        let mut n = text.len();
        if n < 127 {
            block.push(n as u8);
        } else {
            block.push(127);
            n -= 127;
            while n >= 128 {
                block.push(n as u8 | 128);
                n >>= 7;
            }
            block.push(n as u8);
        }
        block.extend_from_slice(text.as_bytes());
    }
}

/// Decodes the blocks of a connection.
pub struct Decoder {
    table: VecDeque<Field>, // the newest first
    size: usize,
    most: usize,
}

type Result<T> = std::result::Result<T, &'static str>;

impl Decoder {
    pub fn new() -> Decoder {
        Decoder { table: VecDeque::new(), size: 0, most: MAX_TABLE }
    }

    /// Returns the fields of a block.
    pub fn decode(&mut self, block: &[u8]) -> Result<Vec<Field>> {
        let (mut input, mut fields, mut size) = (Input(block), Vec::new(), 0);
        while let Some(first) = input.0.first().copied() {
            let field = match first {
                0x80..=0xff => self.entry(input.number(7)?)?,
                0x40..=0x7f => {
                    let field = self.literal(&mut input, 6)?;
                    self.add(field.clone());
                    field
                }
                0x20..=0x3f => {
                    self.most = input.number(5)?;
                    if self.most > MAX_TABLE || !fields.is_empty() {
                        return Err("a wrong size of the table");
                    }
                    self.evict(0);
                    continue;
                }
                _ => self.literal(&mut input, 4)?,
            };
            size += field.0.len() + field.1.len() + 32;
            if size > MAX_FIELDS {
                return Err("too many fields");
            }
            fields.push(field);
        }
        Ok(fields)
    }

    fn literal(&self, input: &mut Input, bits: u32) -> Result<Field> {
        let name = match input.number(bits)? {
            0 => input.text()?,
            index => self.entry(index)?.0,
        };
        Ok((name, input.text()?))
    }

    /// Returns a field of the tables.
    fn entry(&self, index: usize) -> Result<Field> {
        match STATIC.get(index.wrapping_sub(1)) {
            Some((name, value)) => Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec())),
            None if index == 0 => Err("the index 0"),
            None => self.table.get(index - 1 - STATIC.len()).cloned().ok_or("an index that no table has"),
        }
    }

    fn add(&mut self, field: Field) {
        let size = field.0.len() + field.1.len() + 32;
        self.evict(size);
        if size <= self.most {
            self.size += size;
            self.table.push_front(field);
        }
    }

    /// Removes the oldest fields until there is room for more bytes.
    fn evict(&mut self, more: usize) {
        while self.size + more > self.most {
            match self.table.pop_back() {
                Some((name, value)) => self.size -= name.len() + value.len() + 32,
                None => return,
            }
        }
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().ok_or("it ends too early")?;
        self.0 = rest;
        Ok(*first)
    }

    /// Returns a number that begins in the low bits of the next byte.
    fn number(&mut self, bits: u32) -> Result<usize> {
        let most = (1 << bits) - 1;
        let mut n = usize::from(self.byte()?) & most;
        if n < most {
            return Ok(n);
        }
        for shift in [0, 7, 14] {
            let b = self.byte()?;
            n += usize::from(b & 127) << shift;
            if b < 128 {
                return Ok(n);
            }
        }
        Err("a number that is too large")
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let is_coded = self.0.first().map_or(false, |b| b & 128 != 0);
        let n = self.number(7)?;
        if n > self.0.len() {
            return Err("it ends within a text");
        }
        let (data, rest) = self.0.split_at(n);
        self.0 = rest;
        if is_coded {
            return decoded(data);
        }
        Ok(data.to_vec())
    }
}

/// Decodes the Huffman code. It is canonical: codes of one length are consecutive, in the order of their bytes.
fn decoded(data: &[u8]) -> Result<Vec<u8>> {
    let mut order: Vec<u8> = (0..=255).collect();
    order.sort_by_key(|c| LENGTHS[usize::from(*c)]);
    let mut counts = [0_u32; 31];
    LENGTHS.iter().for_each(|n| counts[usize::from(*n)] += 1);
    let mut out = Vec::new();
    // The bits so far, their number, the first code of this length, and the index of its byte.
    let (mut code, mut bits, mut first, mut index) = (0_u32, 0, 0, 0);
    for bit in data.iter().flat_map(|b| (0..8).rev().map(move |i| u32::from(b >> i & 1))) {
        (code, bits, first) = (code << 1 | bit, bits + 1, first << 1);
        let count = *counts.get(bits).ok_or("a text with the end in it")?;
        if code - first < count {
            out.push(order[index + (code - first) as usize]);
            (code, bits, first, index) = (0, 0, 0, 0);
        } else {
            first += count;
            index += count as usize;
        }
    }
    if bits > 7 || code != (1 << bits) - 1 {
        return Err("a text that ends within a character");
    }
    Ok(out)
}

/// The lengths of the Huffman codes of all bytes, in bits.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The static table.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn fields(all: &[(&str, &str)]) -> Vec<Field> {
        all.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    /// The examples of RFC 7541, C.4 and C.6. The table of C.6 has 256 bytes.
    #[test]
    fn blocks_are_those_of_the_standard() {
        let mut requests = Decoder::new();
        let first = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
        assert_eq!(requests.decode(&bytes("828684418cf1e3c2e5f23a6ba0ab90f4ff")), Ok(fields(&first)));
        let second = [first[0], first[1], first[2], first[3], ("cache-control", "no-cache")];
        assert_eq!(requests.decode(&bytes("828684be5886a8eb10649cbf")), Ok(fields(&second)));
        let third = [first[0], (":scheme", "https"), (":path", "/index.html"), first[3], ("custom-key", "custom-value")];
        assert_eq!(requests.decode(&bytes("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf")), Ok(fields(&third)));

        let mut responses = Decoder::new();
        assert_eq!(responses.decode(&bytes("3fe101")), Ok(Vec::new()));
        let (private, date, location) = (("cache-control", "private"), ("date", "Mon, 21 Oct 2013 20:13:21 GMT"), ("location", "https://www.example.com"));
        let block = "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3";
        assert_eq!(responses.decode(&bytes(block)), Ok(fields(&[(":status", "302"), private, date, location])));
        assert_eq!(responses.decode(&bytes("4883640effc1c0bf")), Ok(fields(&[(":status", "307"), private, date, location])));
        let later = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
        let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
        let block = "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007";
        assert_eq!(responses.decode(&bytes(block)), Ok(fields(&[(":status", "200"), private, later, location, ("content-encoding", "gzip"), cookie])));
        assert_eq!(responses.size, 215);
    }

    #[test]
    fn wrong_blocks_are_errors() {
        for block in ["80", "be", "ffffffffff", "3fe21f", "8820", "0001", "000561", "00828c", "0084ffffffff00", "40"] {
            assert!(Decoder::new().decode(&bytes(block)).is_err(), "{}", block);
        }
        // A field of 3968 bytes, which each further byte repeats.
        let mut bomb = bytes("4001617f811e");
        bomb.extend([b'a'; 3968]);
        bomb.extend([0xbe; 15]);
        assert_eq!(Decoder::new().decode(&bomb).map(|fields| fields.len()), Ok(16));
        bomb.push(0xbe);
        assert_eq!(Decoder::new().decode(&bomb), Err("too many fields"));
    }

    #[test]
    fn fields_are_decoded_as_they_were_encoded() {
        let long = "~".repeat(20000);
        let mut block = Vec::new();
        encode(&mut block, "x-long", &long);
        encode(&mut block, "x", &long[..127]);
        assert_eq!(Decoder::new().decode(&block), Ok(fields(&[("x-long", &long), ("x", &long[..127])])));
    }
}
