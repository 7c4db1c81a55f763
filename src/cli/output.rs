//! Printing without panics: a closed pipe (`portcullis schema | head`) is no failure.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Writes `text` to standard output; the exit status says whether it went out.
pub(super) fn answer(text: &str) -> ExitCode {
    status(write(io::stdout().lock(), text), ExitCode::SUCCESS)
}

/// Writes `text` to standard error; the exit status is 1.
pub(super) fn refuse(text: &str) -> ExitCode {
    status(write(io::stderr().lock(), text), ExitCode::FAILURE)
}

/// Writes what was made, or why it was not.
pub(super) fn result(made: Result<String, String>) -> ExitCode {
    match made {
        Ok(text) => answer(&text),
        Err(why) => refuse(&why),
    }
}

/// Writes each line of `text` to standard error as a note.
pub(super) fn note(text: &str) {
    for line in text.lines() {
        // A note that nobody can read changes no exit status.
        let _ = write(io::stderr().lock(), &format!("note: {line}"));
    }
}

fn write(mut out: impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", text.trim_end())?;
    out.flush()
}

fn status(written: io::Result<()>, done: ExitCode) -> ExitCode {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        let ended = |kind| format!("{:?}", status(write(Broken(kind), "a"), ExitCode::SUCCESS));
        assert_eq!(ended(ErrorKind::BrokenPipe), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(ended(ErrorKind::StorageFull), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn text_ends_in_one_line_end() {
        let mut out = Vec::new();
        write(&mut out, "a\n\n").unwrap();
        assert_eq!(out, b"a\n");
    }
}
