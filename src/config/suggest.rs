//! "Did you mean": the known word nearest to a misspelt one.

/// The word of `known` nearest to `word`, if it is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    let allowed = (folded.len() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(&folded, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A list of words in one line: `` `a`, `b` or `c` ``.
pub(super) fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// A list of words: `` `a`, `b`, `c` ``.
pub(super) fn all<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_ref())).collect();
    quoted.join(", ")
}

/// Case, `-` and `_` are the usual slips.
fn fold(word: &str) -> Vec<char> {
    word.chars().take(64).filter(|c| *c != '-' && *c != '_').flat_map(char::to_lowercase).collect()
}

/// Edits (insert, delete, replace, swap neighbours) from `a` to `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let mut best = (get(&above, j + 1) + 1)
                .min(get(&row, j) + 1)
                .min(get(&above, j) + usize::from(x != y));
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(get(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_word_and_strangers_none() {
        let known = ["audiences", "issuer", "max_in_flight", "name"];
        assert_eq!(nearest("audience", known), Some("audiences"));
        assert_eq!(nearest("isuser", known), Some("issuer"));
        assert_eq!(nearest("max-in-flight", known), Some("max_in_flight"));
        assert_eq!(nearest("maxInFlight", known), Some("max_in_flight"));
        assert_eq!(nearest("zzzzzz", known), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn words_are_listed_in_a_sentence() {
        assert_eq!(one_of::<&str>(&[]), "");
        assert_eq!(one_of(&["a"]), "`a`");
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
