//! Names of prims: letters, digits and underscores, each once among its siblings.

use std::collections::HashSet;

/// Gives out names.
#[derive(Default)]
pub struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// A valid name like `wanted`, or like `fallback` where nothing is left of it, that was not given out before.
    pub fn unique(&mut self, wanted: &str, fallback: &str) -> String {
        let name = identifier(wanted).unwrap_or_else(|| fallback.to_owned());
        let mut candidate = name.clone();
        let mut number = 1;
        while !self.taken.insert(candidate.clone()) {
            candidate = format!("{name}_{number}");
            number += 1;
        }
        candidate
    }
}

/// `None` where no letter or digit is left.
fn identifier(wanted: &str) -> Option<String> {
    let valid = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = wanted.chars().map(valid).collect();
    if !name.contains(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    Some(if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_unique() {
        let mut names = Names::default();
        let given = ["hüfte", "h_fte", "2 arms", "", "é", "a/b"].map(|name| names.unique(name, "bone"));
        assert_eq!(given, ["h_fte", "h_fte_1", "_2_arms", "bone", "bone_1", "a_b"]);
    }
}
