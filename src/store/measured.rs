//! What caches really hold, measured by resident memory in a process that does nothing else.

use std::hash::Hash;
use std::process::Command;

use super::{Cache, Cached};

/// How many entries a measurement fills in: so many that what is there anyway does not count.
pub(crate) const ENTRIES: usize = 50_000;

/// Runs the ignored test `name` (its whole path) in a process of its own.
pub(crate) fn apart(name: &str) {
    let arguments = [name, "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    let run = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("1 passed"), "{name} is no test: {said}");
}

/// Bytes of memory that are resident, code apart.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Says what an entry of `cache` takes, which holds [`ENTRIES`] and whose filling took `real`
/// bytes; fails where it is accounted far from it.
pub(crate) fn truthful<K, V>(what: &str, cache: &Cache<K, V>, real: u64)
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Cached,
{
    let (entries, accounted) = cache.size();
    let (real, accounted) = (real / entries, accounted / entries);
    println!("{what}: {entries} entries, {real} bytes each, accounted {accounted}");
    assert_eq!(entries, ENTRIES as u64);
    assert!(
        (75..=125).contains(&(accounted * 100 / real)),
        "{what}: {real}, accounted {accounted}"
    );
}
