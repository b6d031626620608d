//! Secrets that a plugin gets while it runs, such as tokens. The host does not know them.

use prober::json;

use crate::{shorten, web};

/// The shortest text that is hidden, in bytes. Shorter ones are parts of many words.
const MIN_SECRET: usize = 8;

/// The most characters of an excerpt.
const MAX_EXCERPT: usize = 80;

/// A list of texts that are replaced in everything that is shown.
#[derive(Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Adds a secret, also as it is written in URLs and in JSON. One below eight bytes is not hidden.
    pub fn add(&mut self, secret: &str) {
        let quoted = json::quote(secret);
        for form in [secret, &web::escape(secret), &quoted[1..quoted.len() - 1]] {
            self.add_form(form);
        }
    }

    fn add_form(&mut self, secret: &str) {
        if secret.len() >= MIN_SECRET && !self.0.iter().any(|s| s == secret) {
            self.0.push(secret.into());
            self.0.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }

    /// Returns text without secrets, and without the beginning of a secret at its end.
    pub fn hide(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for secret in &self.0 {
            if shown.contains(secret.as_str()) {
                shown = shown.replace(secret.as_str(), "[redacted]");
            }
        }
        if let Some(start) = self.0.iter().filter_map(|s| cut_at(&shown, s)).min() {
            shown.truncate(start);
            shown += "[redacted]";
        }
        shown
    }

    /// Returns the start of a text for a message, without secrets.
    pub fn excerpt(&self, text: &str) -> String {
        if self.0.is_empty() {
            return shorten(text, MAX_EXCERPT);
        }
        let longest = self.0[0].len();
        let near: String = text.chars().take(MAX_EXCERPT + longest).collect();
        let cut = near.len() < text.len();
        let shown = self.hide(&near);
        if cut && shown.chars().count() <= MAX_EXCERPT {
            return shown + "…";
        }
        shorten(&shown, MAX_EXCERPT)
    }
}

/// Returns where the beginning of a secret, of at least eight bytes, ends text.
fn cut_at(text: &str, secret: &str) -> Option<usize> {
    let ends = (MIN_SECRET..secret.len()).rev().filter(|n| secret.is_char_boundary(*n));
    let n = ends.into_iter().find(|n| text.as_bytes().ends_with(secret[..*n].as_bytes()))?;
    Some(text.len() - n)
}
