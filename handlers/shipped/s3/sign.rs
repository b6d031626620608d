//! Signatures of requests, AWS Signature Version 4, as S3 has them: paths are encoded once and not normalized.

use prober::digest::{hmac_sha256, sha256, to_hex};
use prober::time::Utc;

/// The SHA-256 of an empty body.
pub const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Who signs, and for what.
pub struct Signer<'a> {
    pub access_key: &'a str,
    pub secret_key: &'a str,
    pub region: &'a str,
    pub service: &'a str,
}

/// Returns a time as the header X-Amz-Date has it.
pub fn stamp(t: &Utc) -> String {
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}Z", t.year, t.month, t.day, t.hour, t.minute, t.second)
}

/// Returns a path of a URL, whose slashes are not escaped.
pub fn path(text: &str) -> String {
    text.split('/').map(escape).collect::<Vec<_>>().join("/")
}

/// Returns the query of a URL, in the order of a signature.
pub fn query(fields: &[(&str, &str)]) -> String {
    let mut pairs: Vec<(String, String)> = fields.iter().map(|(name, value)| (escape(name), escape(value))).collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{}={}", name, value)).collect::<Vec<_>>().join("&")
}

fn escape(text: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if is_plain(b) { (b as char).to_string() } else { format!("%{:02X}", b) }).collect()
}

impl Signer<'_> {
    /// Returns the header Authorization of a request without a body. path and query are as in the URL, headers has
    /// those that are signed, and time is the header X-Amz-Date.
    pub fn authorization(&self, method: &str, path: &str, query: &str, headers: &[(String, String)], time: &str) -> String {
        let mut signed: Vec<(String, String)> = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), trimmed(value))).collect();
        signed.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let lines: String = signed.iter().map(|(name, value)| format!("{}:{}\n", name, value)).collect();
        let canonical = format!("{}\n{}\n{}\n{}\n{}\n{}", method, path, query, lines, names, EMPTY);
        let day = time.split('T').next().unwrap_or_default();
        let scope = format!("{}/{}/{}/aws4_request", day, self.region, self.service);
        let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, to_hex(&sha256(canonical.as_bytes())));
        let mut key = hmac_sha256(format!("AWS4{}", self.secret_key).as_bytes(), day.as_bytes());
        for part in [self.region, self.service, "aws4_request"] {
            key = hmac_sha256(&key, part.as_bytes());
        }
        let signature = to_hex(&hmac_sha256(&key, to_sign.as_bytes()));
        format!("AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}", self.access_key, scope, names, signature)
    }
}

/// Returns a value without spaces at its ends, and one in place of several.
fn trimmed(value: &str) -> String {
    value.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// The examples of the page "Authenticating Requests: Using the Authorization Header" of the S3 API.
    #[test]
    fn signatures_are_those_of_the_examples_for_s3() {
        let signer = Signer { access_key: "AKIAIOSFODNN7EXAMPLE", secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region: "us-east-1", service: "s3" };
        let own = [("Host", "examplebucket.s3.amazonaws.com"), ("x-amz-content-sha256", EMPTY), ("x-amz-date", "20130524T000000Z")];
        for (range, path, query, names, want) in [
            ("bytes=0-9 ", "/test.txt", "", "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
            ("", "/", "lifecycle=", "host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            ("", "/", &query(&[("prefix", "J"), ("max-keys", "2")]), "host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ] {
            let mut all = headers(&own);
            if !range.is_empty() {
                all.push(("Range".into(), range.into()));
            }
            let want = format!("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders={},Signature={}", names, want);
            assert_eq!(signer.authorization("GET", path, query, &all, "20130524T000000Z"), want);
        }
    }

    /// The vectors of AWS's suite, aws-sig-v4-test-suite, without a body. Their paths are not normalized.
    #[test]
    fn signatures_are_those_of_the_suite() {
        let signer = Signer { access_key: "AKIDEXAMPLE", secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region: "us-east-1", service: "service" };
        const UNRESERVED: &str = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let unreserved = format!("/{}", UNRESERVED);
        let vectors: [(&str, &str, &str, &[(&str, &str)], &[(&str, &str)], &str); 10] = [
            ("get-vanilla", "GET", "/", &[], &[], "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("post-vanilla", "POST", "/", &[], &[], "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            ("get-vanilla-query-order-key-case", "GET", "/", &[("Param2", "value2"), ("Param1", "value1")], &[], "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
            ("get-vanilla-query-unreserved", "GET", "/", &[(UNRESERVED, UNRESERVED)], &[], "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"),
            ("get-vanilla-utf8-query", "GET", "/", &[("ሴ", "bar")], &[], "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
            ("get-header-value-trim", "GET", "/", &[], &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")], "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"),
            ("get-unreserved", "GET", &unreserved, &[], &[], "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"),
            ("get-utf8", "GET", "/ሴ", &[], &[], "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
            ("get-space-unnormalized", "GET", "/example space/", &[], &[], "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"),
            ("get-slashes-unnormalized", "GET", "//example//", &[], &[], "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"),
        ];
        for (name, method, to, fields, more, want) in vectors {
            let mut all = headers(&[("Host", "example.amazonaws.com"), ("X-Amz-Date", "20150830T123600Z")]);
            all.extend(headers(more));
            let got = signer.authorization(method, &path(to), &query(fields), &all, "20150830T123600Z");
            assert!(got.ends_with(&format!(",Signature={}", want)), "{}: {}", name, got);
        }
    }

    #[test]
    fn stamps_have_two_digits() {
        assert_eq!(stamp(&Utc { year: 2026, month: 1, day: 2, hour: 3, minute: 4, second: 5 }), "20260102T030405Z");
    }
}
