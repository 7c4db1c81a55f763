//! Files that nobody wrote on purpose: whatever the bytes, the loader answers, and points into them.

use super::sample::{Folder, load};
use crate::config::Origin;

const SEEDS: [&str; 3] = [
    "listen: {check: [a, {address: b, plaintext: c}]}\ntimeout: 5s\nclients: [x, 'y', \"z\"]\n",
    "listen:\n  check:\n  - a\n  - address: >-\n      b\nroutes:\n  - name: |\n      x\n    keys: {file: k}\n",
    "# c\n---\nlisten: {check: [a]}\napi:\n  url: a # b\n  key: c\n? strict\n: true\n...\n",
];
const PIECES: [&str; 24] = [
    "\n", " ", "  ", "\t", ":", ": ", "- ", "[", "]", "{", "}", ",", "#", "&a ", "*a", "!t ",
    "|\n", ">\n", "'", "\"", "?", "%", "\u{e9}", "---\n",
];

/// Numbers that are the same on every run.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn mutate(seed: &str, random: &mut Sequence) -> String {
    let mut chars: Vec<char> = seed.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(chars.len());
        match random.below(3) {
            0 => {
                let end = (at + 1 + random.below(4)).min(chars.len());
                chars.drain(at..end);
            }
            1 => {
                let piece = PIECES[random.below(PIECES.len())];
                chars.splice(at..at, piece.chars());
            }
            _ => {
                let from = random.below(chars.len());
                let copied: Vec<char> = chars[from..(from + 6).min(chars.len())].to_vec();
                chars.splice(at..at, copied);
            }
        }
        if chars.is_empty() {
            break;
        }
    }
    chars.into_iter().collect()
}

#[test]
fn any_text_is_read_or_refused_at_a_place_in_it() {
    let rounds = option_env!("MUTATION_ROUNDS").map_or(300, |text| text.parse().unwrap());
    let folder = Folder::new("mutations");
    let mut random = Sequence(7);
    let (mut read, mut refused) = (0, 0);
    for round in 0..rounds {
        let text = mutate(SEEDS[round % SEEDS.len()], &mut random);
        let file = folder.write("portcullis.yaml", &text);
        match load(&file, &[]) {
            Ok(_) => read += 1,
            Err(report) => {
                refused += 1;
                assert!(!report.faults().is_empty());
                for fault in report.faults() {
                    let Some(Origin::File { line, column }) = fault.origin else {
                        panic!("no place: {report} in {text:?}");
                    };
                    // Just behind the last line is a place too.
                    assert!(line <= text.split('\n').count() + 1, "{report} in {text:?}");
                    assert!(line > 0 && column > 0, "{report} in {text:?}");
                }
            }
        }
    }
    assert!(read > 0 && refused > rounds / 4, "{read} read, {refused} refused");
}
