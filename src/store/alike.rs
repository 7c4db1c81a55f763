//! What many tokens have alike is kept once.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// More than an issuer's clients or a policy's reasons are; where they differ in each value
/// nothing is gained by remembering them.
const MOST: usize = 256;

/// The values seen of late.
#[derive(Debug)]
pub struct Alike<T: ?Sized>(Mutex<HashSet<Arc<T>>>);

impl<T: ?Sized> Default for Alike<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: ?Sized + Hash + Eq> Alike<T> {
    /// `value`, shared with whoever has the same.
    pub fn of<V: Borrow<T> + Into<Arc<T>>>(&self, value: V) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(value.borrow()) {
            return Arc::clone(same);
        }
        if known.len() >= MOST {
            known.clear();
        }
        let new = value.into();
        known.insert(Arc::clone(&new));
        new
    }

    /// Whether somebody else holds `value`, beside its first owner and the list of those seen.
    #[must_use]
    pub fn is_common(value: &Arc<T>) -> bool {
        Arc::strong_count(value) > 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_kept_once_and_not_for_ever() {
        let alike = Alike::<str>::default();
        let (one, other) = (alike.of("a"), alike.of("a"));
        assert!(Arc::ptr_eq(&one, &other) && Alike::is_common(&one));
        assert!(!Alike::is_common(&alike.of("b")));
        for n in 0..MOST {
            assert_eq!(&*alike.of(n.to_string().as_str()), n.to_string());
        }
        assert!(alike.0.lock().unwrap().len() <= MOST);
        assert!(!Arc::ptr_eq(&one, &alike.of("a")));
    }
}
