//! (room: dependency)
