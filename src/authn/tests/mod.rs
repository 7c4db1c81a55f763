//! The room through its port, with real keys and a key server on loopback.

mod cache;
mod claims;
mod config;
mod fetching;
mod header;
mod issuers;
mod keysets;
mod memory;
mod succeeding;
mod support;
