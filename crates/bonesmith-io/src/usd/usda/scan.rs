//! Moving over the text of a layer: spaces, names, strings, balanced brackets. Knows no structure.

/// A place in a text. All steps stay on character boundaries: they stop at ASCII only.
#[derive(Clone)]
pub struct Scanner<'a> {
    /// The whole text.
    pub text: &'a str,
    /// Byte to look at next.
    pub at: usize,
    /// Where to stop.
    pub end: usize,
}

/// What was expected and where.
#[derive(Debug)]
pub struct Unexpected {
    /// What should be there.
    pub expected: &'static str,
    /// Byte offset.
    pub at: usize,
}

/// Deepest nesting of brackets in a value; real ones have three.
const MAX_BRACKETS: usize = 64;

impl<'a> Scanner<'a> {
    /// Over part of a text.
    pub fn new(text: &'a str, start: usize, end: usize) -> Self {
        let end = end.min(text.len());
        Self { text, at: start.min(end), end }
    }

    /// The next byte; 0 at the end.
    pub fn peek(&self) -> u8 {
        if self.at < self.end { self.text.as_bytes()[self.at] } else { 0 }
    }

    /// What lies ahead.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    /// Whether nothing is left.
    pub fn done(&self) -> bool {
        self.at >= self.end
    }

    /// An error here.
    pub fn expected<T>(&self, expected: &'static str) -> Result<T, Unexpected> {
        Err(Unexpected { expected, at: self.at })
    }

    /// Passes over spaces, line ends, comments, and separators that stand for line ends.
    pub fn skip_space(&mut self) {
        while self.at < self.end {
            match self.peek() {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => self.at += 1,
                b'#' => {
                    let line = self.rest().find('\n');
                    self.at = line.map_or(self.end, |line| self.at + line);
                }
                _ => break,
            }
        }
    }

    /// Takes one character if it comes next.
    pub fn take(&mut self, wanted: u8) -> bool {
        self.skip_space();
        let found = self.peek() == wanted && !self.done();
        self.at += usize::from(found);
        found
    }

    /// One character that must come next.
    pub fn need(&mut self, wanted: u8, expected: &'static str) -> Result<(), Unexpected> {
        if self.take(wanted) { Ok(()) } else { self.expected(expected) }
    }

    /// A name, number or keyword: everything up to a space or a special character. May be empty.
    pub fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let special = |c: char| c.is_ascii_whitespace() || "()[]{}<>@\"'=;,#".contains(c);
        let length = rest.find(special).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Passes over a string in any of its four kinds of quotes; gives what is between them.
    pub fn string(&mut self) -> Result<&'a str, Unexpected> {
        self.skip_space();
        let quote = self.peek();
        if quote != b'"' && quote != b'\'' {
            return self.expected("a string");
        }
        let bytes = &self.text.as_bytes()[..self.end];
        let triple = bytes[self.at..].starts_with(&[quote; 3]);
        let width = if triple { 3 } else { 1 };
        let start = self.at + width;
        let mut at = start;
        loop {
            match bytes.get(at) {
                Some(b'\\') => at += 2,
                Some(b) if *b == quote && (!triple || bytes[at..].starts_with(&[quote; 3])) => break,
                Some(_) => at += 1,
                None => return self.expected("the end of a string"),
            }
        }
        self.at = at + width;
        Ok(self.text.get(start..at).unwrap_or_default())
    }

    /// Passes over `@asset@` or `@@@asset@@@`; gives what is between.
    pub fn asset(&mut self) -> Result<&'a str, Unexpected> {
        let rest = self.rest();
        let mark = if rest.starts_with("@@@") { "@@@" } else { "@" };
        let inside = rest.get(mark.len()..).and_then(|inside| inside.find(mark).map(|length| &inside[..length]));
        let Some(inside) = inside else { return self.expected("the end of an asset path") };
        self.at += inside.len() + 2 * mark.len();
        Ok(inside)
    }

    /// Passes over `<path>`; gives what is between.
    pub fn path(&mut self) -> Result<&'a str, Unexpected> {
        let rest = self.rest();
        let Some(length) = rest.find('>') else { return self.expected("the end of a path") };
        self.at += length + 1;
        Ok(rest.get(1..length).unwrap_or_default())
    }

    /// Passes over one value: a word, string, asset, path or anything in brackets. Gives its span.
    pub fn value(&mut self) -> Result<(usize, usize), Unexpected> {
        self.skip_space();
        let start = self.at;
        match self.peek() {
            b'[' | b'(' | b'{' => self.brackets()?,
            b'"' | b'\'' => _ = self.string()?,
            b'@' => {
                self.asset()?;
                self.arc_tail()?;
            }
            b'<' => {
                self.path()?;
                self.arc_tail()?;
            }
            _ if self.word().is_empty() => return self.expected("a value"),
            _ => {}
        }
        Ok((start, self.at))
    }

    /// What may follow an asset in a reference: a prim, and an offset in parentheses on the same line.
    fn arc_tail(&mut self) -> Result<(), Unexpected> {
        let spaces = |s: &Self| s.rest().len() - s.rest().trim_start_matches([' ', '\t']).len();
        let next = self.at + spaces(self);
        if next < self.end && self.text.as_bytes().get(next) == Some(&b'<') {
            self.at = next;
            self.path()?;
        }
        let ahead = self.at + spaces(self);
        // Only references have a tail, and its first word distinguishes it from the metadata of a property.
        let tail = self.text.get(ahead..self.end).and_then(|t| t.strip_prefix('(')).unwrap_or_default().trim_start();
        if tail.starts_with("offset") || tail.starts_with("scale") || tail.starts_with("customData") {
            self.at = ahead;
            self.brackets()?;
        }
        Ok(())
    }

    /// Passes over balanced brackets with everything in them.
    pub fn brackets(&mut self) -> Result<(), Unexpected> {
        let bytes = &self.text.as_bytes()[..self.end];
        let mut depth = 0usize;
        while self.at < bytes.len() {
            match bytes[self.at] {
                b'[' | b'(' | b'{' => {
                    depth += 1;
                    if depth > MAX_BRACKETS {
                        return self.expected("fewer nested brackets");
                    }
                    self.at += 1;
                }
                b']' | b')' | b'}' => {
                    self.at += 1;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                b'"' | b'\'' => _ = self.string()?,
                b'@' => _ = self.asset()?,
                b'#' => self.skip_space(),
                _ => self.at += 1,
            }
        }
        self.expected("a closing bracket")
    }
}
