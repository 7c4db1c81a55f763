//! (room: respond)
