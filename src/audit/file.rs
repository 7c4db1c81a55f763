//! Date-partitioned files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file of one date, open for appending.
pub(super) struct Dated {
    path: PathBuf,
    file: File,
}

/// A directory of files named `YYYY-MM-DD.ndjson`.
pub(super) struct Directory {
    root: PathBuf,
    open: Option<Dated>,
}

impl Directory {
    /// The directory is made if it is missing.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(root)?;
        Ok(Self { root: root.to_owned(), open: None })
    }

    /// The file of `date`, opened again if it was deleted or renamed. The flag says that its
    /// last line is cut: it was left without a newline.
    pub(super) fn file(&mut self, date: &str) -> io::Result<(&mut File, bool)> {
        let path = self.root.join(format!("{date}.ndjson"));
        let current = self.open.take().filter(|open| open.path == path && open.is_in_place());
        if let Some(dated) = current {
            return Ok((&mut self.open.insert(dated).file, false));
        }
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).read(true).mode(0o640).open(&path)?;
        let cut = ends_within_line(&mut file)?;
        let dated = Dated { path, file };
        Ok((&mut self.open.insert(dated).file, cut))
    }

    /// Forgets the open file, so that the next write starts from its name.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Makes what was written durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.open
            .as_mut()
            .map_or(Ok(()), |open| open.file.flush().and_then(|()| open.file.sync_data()))
    }
}

impl Dated {
    /// Whether the path still names the open file.
    fn is_in_place(&self) -> bool {
        let (Ok(here), Ok(there)) = (self.file.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        here.ino() == there.ino() && here.dev() == there.dev()
    }
}

fn ends_within_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}
