//! (room: config)
