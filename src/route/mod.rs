//! (room: route)
