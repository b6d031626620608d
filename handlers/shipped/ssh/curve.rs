//! X25519 of RFC 7748 and the verification of Ed25519 of RFC 8032, after TweetNaCl, which is in the public domain.
//! A number modulo 2^255-19 is 16 limbs of 16 bits.

use prober::digest::sha512;

#[derive(Clone, Copy)]
struct Number([i64; 16]);

const ZERO: Number = Number([0; 16]);
const ONE: Number = Number([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/// The constant of the curve X25519.
const A24: Number = Number([0xdb41, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/// The constant of the curve Ed25519, and its double.
const D: Number =
    Number([0x78a3, 0x1359, 0x4dca, 0x75eb, 0xd8ab, 0x4141, 0x0a4d, 0x0070, 0xe898, 0x7779, 0x4079, 0x8cc7, 0xfe73, 0x2b6f, 0x6cee, 0x5203]);
const D2: Number =
    Number([0xf159, 0x26b2, 0x9b94, 0xebd6, 0xb156, 0x8283, 0x149a, 0x00e0, 0xd130, 0xeef3, 0x80f2, 0x198e, 0xfce7, 0x56df, 0xd9dc, 0x2406]);

/// A square root of -1.
const ROOT: Number =
    Number([0xa0b0, 0x4a0e, 0x1b27, 0xc4ee, 0xe478, 0xad2f, 0x1806, 0x2f43, 0xd7a7, 0x3dfb, 0x0099, 0x2b4d, 0xdf0b, 0x4fc1, 0x2480, 0x2b83]);

/// The coordinates of the base point of Ed25519.
const BASE_X: Number =
    Number([0xd51a, 0x8f25, 0x2d60, 0xc956, 0xa7b2, 0x9525, 0xc760, 0x692c, 0xdc5c, 0xfdd6, 0xe231, 0xc0a4, 0x53fe, 0xcd6e, 0x36d3, 0x2169]);
const BASE_Y: Number = Number([
    0x6658, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666, 0x6666,
]);

/// The order of the base point, lowest byte first.
const ORDER: [i64; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

impl Number {
    fn from_bytes(bytes: &[u8; 32]) -> Number {
        let mut n = ZERO;
        for (limb, pair) in n.0.iter_mut().zip(bytes.chunks_exact(2)) {
            *limb = i64::from(pair[0]) | i64::from(pair[1]) << 8;
        }
        n.0[15] &= 0x7fff;
        n
    }

    /// Returns the bytes of the number below 2^255-19.
    fn to_bytes(self) -> [u8; 32] {
        let mut t = self;
        t.carry();
        t.carry();
        t.carry();
        for _ in 0..2 {
            let mut m = ZERO;
            let mut borrow = 0;
            for i in 0..16 {
                let prime = [0xffed, 0xffff, 0x7fff][usize::from(i > 0) + usize::from(i == 15)];
                let d = t.0[i] - prime - borrow;
                borrow = d >> 16 & 1;
                m.0[i] = if i == 15 { d } else { d & 0xffff };
            }
            if borrow == 0 {
                t = m;
            }
        }
        let mut out = [0; 32];
        for (pair, limb) in out.chunks_exact_mut(2).zip(t.0) {
            pair.copy_from_slice(&(limb as u16).to_le_bytes());
        }
        out
    }

    fn carry(&mut self) {
        for i in 0..16 {
            let over = self.0[i] >> 16;
            self.0[i] -= over << 16;
            match i {
                15 => self.0[0] += 38 * over,
                _ => self.0[i + 1] += over,
            }
        }
    }

    fn plus(self, b: Number) -> Number {
        let mut n = self;
        n.0.iter_mut().zip(b.0).for_each(|(x, y)| *x += y);
        n
    }

    fn minus(self, b: Number) -> Number {
        let mut n = self;
        n.0.iter_mut().zip(b.0).for_each(|(x, y)| *x -= y);
        n
    }

    fn times(self, b: Number) -> Number {
        let mut t = [0; 31];
        // Eight products a turn need a third less instructions: the compiler does not unroll loops.
        for (i, x) in self.0.iter().enumerate() {
            for (sum, y) in t[i..i + 16].chunks_exact_mut(8).zip(b.0.chunks_exact(8)) {
                sum[0] += x * y[0];
                sum[1] += x * y[1];
                sum[2] += x * y[2];
                sum[3] += x * y[3];
                sum[4] += x * y[4];
                sum[5] += x * y[5];
                sum[6] += x * y[6];
                sum[7] += x * y[7];
            }
        }
        let mut n = ZERO;
        n.0.copy_from_slice(&t[..16]);
        n.0.iter_mut().zip(&t[16..]).for_each(|(low, high)| *low += 38 * high);
        n.carry();
        n.carry();
        n
    }

    fn square(self) -> Number {
        self.times(self)
    }

    fn invert(self) -> Number {
        let mut n = self;
        for i in (0..=253).rev() {
            n = n.square();
            if i != 2 && i != 4 {
                n = n.times(self);
            }
        }
        n
    }

    /// Returns the power of (2^255-19-5)/8.
    fn root_power(self) -> Number {
        let mut n = self;
        for i in (0..=250).rev() {
            n = n.square();
            if i != 1 {
                n = n.times(self);
            }
        }
        n
    }

    fn is_odd(self) -> bool {
        self.to_bytes()[0] & 1 == 1
    }

    fn equals(self, b: Number) -> bool {
        self.to_bytes() == b.to_bytes()
    }
}

fn bit(scalar: &[u8; 32], i: usize) -> bool {
    scalar[i >> 3] >> (i & 7) & 1 == 1
}

/// The base point of X25519.
pub const BASE: [u8; 32] = [9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Returns the product of a secret and a point.
pub fn x25519(secret: &[u8; 32], point: &[u8; 32]) -> [u8; 32] {
    let mut z = *secret;
    z[31] = z[31] & 127 | 64;
    z[0] &= 248;
    let x = Number::from_bytes(point);
    let (mut a, mut b, mut c, mut d) = (ONE, x, ZERO, ONE);
    for i in (0..255).rev() {
        let swap = bit(&z, i);
        if swap {
            std::mem::swap(&mut a, &mut b);
            std::mem::swap(&mut c, &mut d);
        }
        let (e, f, g, h) = (a.plus(c), a.minus(c), b.plus(d), b.minus(d));
        let (ee, ff) = (e.square(), f.square());
        let (gf, he) = (g.times(f), h.times(e));
        let diff = ee.minus(ff);
        a = ee.times(ff);
        b = gf.plus(he).square();
        c = diff.times(diff.times(A24).plus(ee));
        d = gf.minus(he).square().times(x);
        if swap {
            std::mem::swap(&mut a, &mut b);
            std::mem::swap(&mut c, &mut d);
        }
    }
    a.times(c.invert()).to_bytes()
}

/// A point of Ed25519 in extended coordinates.
#[derive(Clone, Copy)]
struct Point([Number; 4]);

impl Point {
    const NEUTRAL: Point = Point([ZERO, ONE, ONE, ZERO]);

    fn base() -> Point {
        Point([BASE_X, BASE_Y, ONE, BASE_X.times(BASE_Y)])
    }

    fn plus(self, q: Point) -> Point {
        let (p, q) = (self.0, q.0);
        let a = p[1].minus(p[0]).times(q[1].minus(q[0]));
        let b = p[0].plus(p[1]).times(q[0].plus(q[1]));
        let c = p[3].times(q[3]).times(D2);
        let d = p[2].times(q[2]);
        let d = d.plus(d);
        let (e, f, g, h) = (b.minus(a), d.minus(c), d.plus(c), b.plus(a));
        Point([e.times(f), h.times(g), g.times(f), e.times(h)])
    }

    fn to_bytes(self) -> [u8; 32] {
        let z = self.0[2].invert();
        let mut out = self.0[1].times(z).to_bytes();
        out[31] ^= u8::from(self.0[0].times(z).is_odd()) << 7;
        out
    }

    /// Returns the negative of an encoded point. None if there is no such point.
    fn negative(bytes: &[u8; 32]) -> Option<Point> {
        let y = Number::from_bytes(bytes);
        let square = y.square();
        let (num, den) = (square.minus(ONE), ONE.plus(square.times(D)));
        let den2 = den.square();
        let den6 = den2.square().times(den2);
        let t = den6.times(num).times(den).root_power();
        let mut x = t.times(num).times(den).times(den).times(den);
        if !x.square().times(den).equals(num) {
            x = x.times(ROOT);
        }
        if !x.square().times(den).equals(num) {
            return None;
        }
        if x.is_odd() == (bytes[31] >> 7 == 1) {
            x = ZERO.minus(x);
        }
        Some(Point([x, y, ONE, x.times(y)]))
    }
}

/// Returns a number of 64 bytes modulo the order of the base point.
fn reduce(number: &[u8; 64]) -> [u8; 32] {
    let mut x = number.map(i64::from);
    for i in (32..64).rev() {
        let mut carry = 0;
        for j in i - 32..i - 12 {
            x[j] += carry - 16 * x[i] * ORDER[j - (i - 32)];
            carry = (x[j] + 128) >> 8;
            x[j] -= carry << 8;
        }
        x[i - 12] += carry;
        x[i] = 0;
    }
    let top = x[31] >> 4;
    let mut carry = 0;
    for j in 0..32 {
        x[j] += carry - top * ORDER[j];
        carry = x[j] >> 8;
        x[j] &= 255;
    }
    let mut out = [0; 32];
    let mut over = 0;
    for j in 0..32 {
        let sum = x[j] - carry * ORDER[j] + over;
        over = sum >> 8;
        out[j] = (sum & 255) as u8;
    }
    out
}

/// Reports whether a signature of Ed25519 is right.
pub fn verify(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let (mut r, mut s) = ([0; 32], [0; 32]);
    r.copy_from_slice(&signature[..32]);
    s.copy_from_slice(&signature[32..]);
    let negative = match Point::negative(key) {
        Some(point) => point,
        None => return false,
    };
    let is_below_order = s.iter().rev().zip(ORDER.iter().rev()).find(|(a, b)| i64::from(**a) != **b).map_or(false, |(a, b)| i64::from(*a) < *b);
    if !is_below_order {
        return false;
    }
    let h = reduce(&sha512(&[&r, key.as_slice(), message].concat()));
    let base = Point::base();
    let both = base.plus(negative);
    let mut sum = Point::NEUTRAL;
    for i in (0..256).rev() {
        sum = sum.plus(sum);
        match (bit(&s, i), bit(&h, i)) {
            (true, true) => sum = sum.plus(both),
            (true, false) => sum = sum.plus(base),
            (false, true) => sum = sum.plus(negative),
            (false, false) => {}
        }
    }
    sum.to_bytes() == r
}
