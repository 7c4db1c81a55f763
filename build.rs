//! Links the program so that little of it is touched when it starts.

use std::process::Command;

/// The first glibc that takes packed relocations.
const SINCE: (u32, u32) = (2, 36);

/// A position-independent program of this size has 1.7 MB of relocations, which stay resident once
/// the loader has read them; packed they are 30 KB. A program that is built on a C library runs on
/// none that is older, so the one here says whether the form is understood.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let here = var("HOST") == var("TARGET") && var("CARGO_CFG_TARGET_ENV") == "gnu";
    if here && var("CARGO_CFG_TARGET_OS") == "linux" && glibc().is_some_and(|is| is >= SINCE) {
        println!("cargo:rustc-link-arg-bin=portcullis=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library here.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let text = String::from_utf8(said).ok()?;
    let (major, minor) = text.split_whitespace().nth(1)?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
