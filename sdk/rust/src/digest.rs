//! Digests for logins, and base64. The standard library does not have them.

pub use crate::sha512::{hmac_sha512, pbkdf2_sha512, sha512};

/// Returns the MD5 digest, for protocols that still need it.
pub fn md5(data: &[u8]) -> [u8; 16] {
    let mut all = padded(data, 0, 64);
    let size = all.len();
    all[size - 8..].reverse(); // MD5 has the low bytes of the length first
    let mut h: [u32; 4] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
    for block in all.chunks_exact(64) {
        let mut w = [0; 16];
        words(block, &mut w);
        let [mut a, mut b, mut c, mut d] = h;
        for (i, k) in MD5_ROUNDS.iter().enumerate() {
            let (f, word) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), 5 * i + 1),
                2 => (b ^ c ^ d, 3 * i + 5),
                _ => (c ^ (b | !d), 7 * i),
            };
            let sum = a.wrapping_add(f).wrapping_add(*k).wrapping_add(w[word % 16].swap_bytes());
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(MD5_SHIFTS[i / 16][i % 4])));
        }
        add(&mut h, &[a, b, c, d]);
    }
    bytes(&h.map(u32::swap_bytes))
}

const MD5_SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

const MD5_ROUNDS: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

/// Returns the SHA-1 digest, for protocols that still need it.
pub fn sha1(data: &[u8]) -> [u8; 20] {
    let mut h: [u32; 5] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
    for block in padded(data, 0, 64).chunks_exact(64) {
        let mut w = [0; 80];
        words(block, &mut w);
        for i in 16..80 {
            w[i] = (w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = h;
        for (i, word) in w.iter().enumerate() {
            let (f, k) = match i / 20 {
                0 => ((b & c) | (!b & d), 0x5a827999),
                1 => (b ^ c ^ d, 0x6ed9eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1bbcdc),
                _ => (b ^ c ^ d, 0xca62c1d6_u32),
            };
            let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        add(&mut h, &[a, b, c, d, e]);
    }
    bytes(&h)
}

pub fn sha256(data: &[u8]) -> [u8; 32] {
    Sha256::START.finish(data, 0)
}

pub fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; 32] {
    Hmac::new(key).sum(data)
}

/// Returns the key of PBKDF2 with HMAC-SHA-256, as in SCRAM.
pub fn pbkdf2_sha256(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
    let hmac = Hmac::new(password);
    pbkdf2(|data| hmac.sum(data), salt, rounds)
}

pub(crate) fn pbkdf2<const N: usize>(hmac: impl Fn(&[u8]) -> [u8; N], salt: &[u8], rounds: u32) -> [u8; N] {
    let mut last = hmac(&[salt, &[0, 0, 0, 1]].concat());
    let mut key = last;
    for _ in 1..rounds {
        last = hmac(&last);
        for (k, l) in key.iter_mut().zip(last) {
            *k ^= l;
        }
    }
    key
}

/// Returns data in hexadecimal, in lower case.
pub fn to_hex(data: &[u8]) -> String {
    data.iter().map(|b| format!("{:02x}", b)).collect()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn to_base64(data: &[u8]) -> String {
    let mut text = String::new();
    for chunk in data.chunks(3) {
        let bits = chunk.iter().fold(0, |v, b| v << 8 | usize::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            text.push(if i <= chunk.len() { BASE64[bits >> (18 - 6 * i) & 63].into() } else { '=' });
        }
    }
    text
}

/// Decodes base64. Returns None if text is not valid.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    let digits = text.trim_end_matches('=').as_bytes();
    if text.len() % 4 != 0 || text.len() - digits.len() > 2 {
        return None;
    }
    for chunk in digits.chunks(4) {
        let mut bits = 0;
        for c in chunk {
            bits = bits << 6 | BASE64.iter().position(|b| b == c)?;
        }
        bits <<= 6 * (4 - chunk.len());
        data.extend((0..chunk.len() - 1).map(|i| (bits >> (16 - 8 * i)) as u8));
    }
    Some(data)
}

struct Hmac {
    inner: Sha256,
    outer: Sha256,
}

impl Hmac {
    fn new(key: &[u8]) -> Hmac {
        let mut block = [0; 64];
        match key.len() {
            0..=64 => block[..key.len()].copy_from_slice(key),
            _ => block[..32].copy_from_slice(&sha256(key)),
        }
        let (mut inner, mut outer) = (Sha256::START, Sha256::START);
        inner.block(&block.map(|b| b ^ 0x36));
        outer.block(&block.map(|b| b ^ 0x5c));
        Hmac { inner, outer }
    }

    fn sum(&self, data: &[u8]) -> [u8; 32] {
        self.outer.finish(&self.inner.finish(data, 64), 64)
    }
}

const SHA256_ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

#[derive(Clone, Copy)]
struct Sha256([u32; 8]);

impl Sha256 {
    const START: Sha256 = Sha256([0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19]);

    /// Adds the last data, after `before` bytes in whole blocks, and returns the digest.
    fn finish(mut self, data: &[u8], before: usize) -> [u8; 32] {
        for block in padded(data, before, 64).chunks_exact(64) {
            self.block(block);
        }
        bytes(&self.0)
    }

    fn block(&mut self, block: &[u8]) {
        let mut w = [0; 64];
        words(block, &mut w);
        for i in 16..64 {
            let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
            let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
            w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut last] = self.0;
        for (word, k) in w.iter().zip(SHA256_ROUNDS) {
            let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let t1 = last.wrapping_add(s1).wrapping_add((e & f) ^ (!e & g)).wrapping_add(k).wrapping_add(*word);
            let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (last, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
        }
        add(&mut self.0, &[a, b, c, d, e, f, g, last]);
    }
}

/// Returns the data padded to whole blocks with a one, zeros, and the length in bits.
pub(crate) fn padded(data: &[u8], before: usize, block: usize) -> Vec<u8> {
    let size = (data.len() + 1 + block / 8 + block - 1) / block * block;
    let mut all = Vec::with_capacity(size);
    all.extend_from_slice(data);
    all.push(0x80);
    all.resize(size - 8, 0);
    all.extend_from_slice(&((before + data.len()) as u64 * 8).to_be_bytes());
    all
}

fn words(block: &[u8], to: &mut [u32]) {
    for (word, b) in to.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    }
}

fn add(h: &mut [u32], more: &[u32]) {
    for (h, m) in h.iter_mut().zip(more) {
        *h = h.wrapping_add(*m);
    }
}

fn bytes<const N: usize>(h: &[u32]) -> [u8; N] {
    let mut all = [0; N];
    for (to, word) in all.chunks_exact_mut(4).zip(h) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{:02x}", b)).collect()
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e"); // RFC 1321
        assert_eq!(hex(&md5(b"message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
        let digits = b"12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(hex(&md5(digits)), "57edf4a22be3c955ac49da2e2107b67a");
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(&sha1(long)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(hex(&sha256(b"")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(&sha256(long)), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }

    #[test]
    fn keys_are_those_of_the_standards() {
        let what = b"what do ya want for nothing?"; // RFC 4231
        assert_eq!(hex(&hmac_sha256(b"Jefe", what)), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&hmac_sha256(&[0xaa; 131], long)), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
        let key = pbkdf2_sha256(b"passwd", b"salt", 1); // RFC 7914
        assert_eq!(hex(&key), "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
    }

    #[test]
    fn base64_goes_there_and_back() {
        for (data, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(to_base64(data.as_bytes()), text);
            assert_eq!(from_base64(text), Some(data.into()));
        }
        for text in ["Z", "Zg", "Zg=", "Z===", "Zm9v!Zm8=", "===="] {
            assert_eq!(from_base64(text), None, "{}", text);
        }
    }
}
