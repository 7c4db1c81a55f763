//! (room: audit)
