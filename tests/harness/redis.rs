//! Real Redis servers. Used by the tests of the room `store` too, so nothing here needs the rest
//! of the harness.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A running server; killed when dropped, its folder with it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) folder: PathBuf,
    args: Vec<String>,
    child: Option<Child>,
}

/// A free port that no other test of this process gets.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(61);
    loop {
        let next = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 8_000;
        let port = u16::try_from(11_000 + next).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Server {
    /// A server with these options more, such as `--requirepass secret`.
    pub(crate) fn start(options: &[&str]) -> Self {
        let port = port();
        let name = format!("portcullis-redis-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut args: Vec<String> =
            ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"].map(str::to_owned).to_vec();
        args.extend(["--port".to_owned(), port.to_string()]);
        args.extend(["--dir".to_owned(), folder.display().to_string()]);
        args.extend(options.iter().map(|option| (*option).to_owned()));
        Self::launch(port, folder, args)
    }

    /// A server on `port` with these arguments, and its files in `folder`.
    pub(crate) fn launch(port: u16, folder: PathBuf, args: Vec<String>) -> Self {
        let mut server = Self { port, folder, args, child: None };
        server.run();
        server
    }

    /// Starts it again after [`Server::kill`], empty, on the same port.
    pub(crate) fn run(&mut self) {
        let log = std::fs::File::create(self.folder.join("log")).unwrap();
        let child = Command::new("redis-server")
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("redis-server does not start ({e}): install it"));
        self.child = Some(child);
        let start = Instant::now();
        while !self.try_say("PING").is_ok_and(|answer| answer.starts_with(['+', '-'])) {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(start.elapsed() < Duration::from_secs(30), "redis-server is not ready\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Sends it a signal by name, such as `STOP` and `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Says one inline command and returns the answer as it came (one read).
    pub(crate) fn say(&self, command: &str) -> String {
        self.try_say(command).unwrap_or_else(|e| panic!("{command}: {e}"))
    }

    fn try_say(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let mut buffer = vec![0; 1 << 20];
        let length = stream.read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// Waits until the answer to `command` contains `text`.
    pub(crate) fn until(&self, command: &str, text: &str) {
        let start = Instant::now();
        loop {
            let answer = self.try_say(command).unwrap_or_default();
            if answer.contains(text) {
                return;
            }
            assert!(start.elapsed() < Duration::from_mins(1), "{command}: {text} not in {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
