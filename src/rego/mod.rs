//! (room: rego)
