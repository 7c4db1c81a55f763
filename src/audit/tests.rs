//! Sinks that fail, files that go, and queues that fill.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::config::AuditConfig;
use super::{Audit, Event, Kind};
use crate::clock::Clock;
use crate::model::{Code, Record, VerifiedToken};
use crate::telemetry::Metrics;

fn event(clock: &Clock, id: &str) -> Event {
    Event {
        at: clock.now(),
        took: Duration::ZERO,
        kind: Kind::Allow,
        reason: Code::Allowed.into(),
        status: 200,
        record: Record { check_id: id.into(), ..Record::default() },
        subject_hash: None,
        caller_hash: None,
        altered: false,
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

/// A directory of the test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("audit-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn start(&self, metrics: &Arc<Metrics>) -> Audit {
        let config = AuditConfig { directory: Some(self.0.clone()), ..AuditConfig::default() };
        Audit::start(&config, std::path::Path::new("/"), metrics.clone()).unwrap()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.0.join(file)).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn id_of(line: &str) -> String {
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    value["check_id"].as_str().unwrap_or_default().to_owned()
}

/// Takes `room` bytes more, then fails; what it took is shown.
#[derive(Clone, Default)]
struct Narrow(Arc<Mutex<(Vec<u8>, usize)>>);

impl Narrow {
    fn make_room(&self, room: usize) {
        self.0.lock().unwrap().1 = room;
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
    }
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.lock().unwrap();
        let take = bytes.len().min(inner.1);
        if take == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inner.0.extend_from_slice(&bytes[..take]);
        inner.1 -= take;
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a02_everything_emitted_is_on_disk_after_the_flush_and_lies_by_date() {
    let (folder, metrics) = (Folder::new("dates"), Arc::new(Metrics::new()));
    let audit = folder.start(&metrics);
    let clock = Clock::manual(1_700_006_399);
    for i in 0..500 {
        audit.emit(event(&clock, &format!("a{i}")));
    }
    clock.advance(Duration::from_secs(1));
    audit.emit(event(&clock, "b"));
    assert!(audit.flush(soon()));
    let ids: Vec<_> = folder.lines("2023-11-14.ndjson").iter().map(|l| id_of(l)).collect();
    assert_eq!(ids, (0..500).map(|i| format!("a{i}")).collect::<Vec<_>>());
    assert_eq!(id_of(&folder.lines("2023-11-15.ndjson")[0]), "b");
    assert_eq!(metrics.audit_written.get(), 501);
    let mode = fs::metadata(folder.0.join("2023-11-15.ndjson")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
}

#[test]
fn a03_a_file_that_is_renamed_deleted_or_truncated_is_written_again() {
    let (folder, metrics) = (Folder::new("rotate"), Arc::new(Metrics::new()));
    let audit = folder.start(&metrics);
    let clock = Clock::manual(1_700_000_000);
    let name = "2023-11-14.ndjson";
    let write = |id: &str| {
        audit.emit(event(&clock, id));
        assert!(audit.flush(soon()));
    };
    write("one");
    fs::rename(folder.0.join(name), folder.0.join("rotated")).unwrap();
    write("two");
    assert_eq!(id_of(&folder.lines("rotated")[0]), "one");
    assert_eq!(id_of(&folder.lines(name)[0]), "two");
    fs::remove_file(folder.0.join(name)).unwrap();
    write("three");
    assert_eq!(id_of(&folder.lines(name)[0]), "three");
    fs::File::create(folder.0.join(name)).unwrap();
    write("four");
    assert_eq!(folder.lines(name).len(), 1);
    assert_eq!(id_of(&folder.lines(name)[0]), "four");
}

#[test]
fn a03_after_a_full_disk_the_next_record_has_its_own_line_and_the_cut_one_is_marked() {
    let (sink, metrics) = (Narrow::default(), Arc::new(Metrics::new()));
    let audit = Audit::to_stream(Box::new(sink.clone()), 64, metrics.clone()).unwrap();
    let clock = Clock::manual(1_700_000_000);
    sink.make_room(40);
    audit.emit(event(&clock, "cut"));
    assert!(audit.flush(soon()));
    assert_eq!((metrics.audit_written.get(), metrics.audit_failed.get()), (0, 1));
    // A little room: not even the marker fits.
    sink.make_room(5);
    audit.emit(event(&clock, "lost"));
    assert!(audit.flush(soon()));
    sink.make_room(100_000);
    audit.emit(event(&clock, "after"));
    assert!(audit.flush(soon()));
    let text = sink.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(id_of(lines.last().unwrap()), "after");
    let marker = lines[lines.len() - 2];
    assert!(marker.contains("previous_line_is_cut"), "{text}");
    assert!(serde_json::from_str::<Value>(marker).is_ok());
    assert_eq!((metrics.audit_written.get(), metrics.audit_failed.get()), (1, 2));
}

#[test]
fn a03_a_line_that_an_earlier_run_cut_is_closed_and_marked() {
    let (folder, metrics) = (Folder::new("cut"), Arc::new(Metrics::new()));
    fs::create_dir_all(&folder.0).unwrap();
    fs::write(folder.0.join("2023-11-14.ndjson"), "{\"schema\":1,\"che").unwrap();
    let audit = folder.start(&metrics);
    audit.emit(event(&Clock::manual(1_700_000_000), "next"));
    assert!(audit.flush(soon()));
    let lines = folder.lines("2023-11-14.ndjson");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains("previous_line_is_cut"));
    assert_eq!(id_of(&lines[2]), "next");
}

#[test]
fn a03_dev_full_and_a_missing_directory_are_counted_and_recover() {
    let (folder, metrics) = (Folder::new("full"), Arc::new(Metrics::new()));
    let audit = folder.start(&metrics);
    let clock = Clock::manual(1_700_000_000);
    let file = folder.0.join("2023-11-14.ndjson");
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    audit.emit(event(&clock, "full"));
    assert!(audit.flush(soon()));
    assert_eq!(metrics.audit_failed.get(), 1);
    fs::remove_file(&file).unwrap();
    fs::remove_dir_all(&folder.0).unwrap();
    audit.emit(event(&clock, "no directory"));
    assert!(audit.flush(soon()));
    assert_eq!(metrics.audit_failed.get(), 2);
    fs::create_dir_all(&folder.0).unwrap();
    audit.emit(event(&clock, "back"));
    assert!(audit.flush(soon()));
    assert_eq!(id_of(&folder.lines("2023-11-14.ndjson")[0]), "back");
    assert_eq!(metrics.audit_written.get(), 1);
}

/// Never returns from a write.
struct Stuck;

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        loop {
            std::thread::park();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a02_a_sink_that_hangs_holds_up_neither_checks_nor_the_exit() {
    let metrics = Arc::new(Metrics::new());
    let audit = Audit::to_stream(Box::new(Stuck), 16, metrics.clone()).unwrap();
    let clock = Clock::manual(1_700_000_000);
    let start = Instant::now();
    for _ in 0..200 {
        audit.emit(event(&clock, "x"));
    }
    assert!(metrics.audit_dropped.get() >= 100, "a full queue drops and counts");
    assert!(!audit.flush(start + Duration::from_millis(200)));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_person_has_one_hash_whatever_the_token_and_nobody_elses() {
    let folder = Folder::new("hashes");
    let audit = folder.start(&Arc::new(Metrics::new()));
    let token =
        |subject, client| VerifiedToken::about(subject, Some(client), &Value::Object(Map::new()));
    let (ann, other, bob) = (token("ann", "web"), token("ann", "app"), token("bob", "web"));
    let hash = audit.subject_hash(&ann);
    // The first time it is made, then remembered.
    assert_eq!(hash, audit.subject_hash(&ann));
    assert_eq!(hash, audit.subject_hash(&other));
    assert_ne!(hash, audit.subject_hash(&bob));
}
