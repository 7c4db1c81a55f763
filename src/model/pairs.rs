//! Names and values of headers, small.

use std::ops::Deref;
use std::sync::Arc;

/// A header's name, which all decisions share that set it, and its value.
pub type Pair = (Arc<str>, Box<str>);

/// Headers to set. Most decisions set one, and a million may be kept: one needs no list.
#[derive(Debug)]
pub struct Pairs(Few);

#[derive(Debug)]
enum Few {
    One(Pair),
    Others(Box<[Pair]>),
}

impl Default for Pairs {
    fn default() -> Self {
        Self(Few::Others(Box::default()))
    }
}

impl Deref for Pairs {
    type Target = [Pair];

    fn deref(&self) -> &[Pair] {
        match &self.0 {
            Few::One(pair) => std::slice::from_ref(pair),
            Few::Others(pairs) => pairs,
        }
    }
}

impl Pairs {
    /// Bytes of their list, where they have one.
    #[must_use]
    pub fn listed(&self) -> usize {
        match &self.0 {
            Few::One(_) => 0,
            Few::Others(pairs) => size_of_val(&**pairs),
        }
    }
}

impl FromIterator<Pair> for Pairs {
    fn from_iter<I: IntoIterator<Item = Pair>>(pairs: I) -> Self {
        let mut pairs = pairs.into_iter();
        let Some(first) = pairs.next() else { return Self::default() };
        match pairs.next() {
            None => Self(Few::One(first)),
            Some(second) => Self(Few::Others([first, second].into_iter().chain(pairs).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_a_slice_in_order_and_one_needs_no_list() {
        for count in 0..4 {
            let pair = |n: usize| (n.to_string().into(), "v".into());
            let pairs: Pairs = (0..count).map(pair).collect();
            let names: Vec<_> = pairs.iter().map(|(name, _)| name.to_string()).collect();
            assert_eq!(names, (0..count).map(|n| n.to_string()).collect::<Vec<_>>());
            assert_eq!(pairs.listed(), if count < 2 { 0 } else { count * size_of::<Pair>() });
        }
    }
}
