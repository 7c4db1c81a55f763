//! Bounds of what one request may bring into the policy input; beyond is 413.

use crate::model::{Code, Refusal};

/// Bytes of the `context` fragment.
pub(super) const INPUT_BYTES: usize = 256 << 10;
/// Bytes of one decoded string.
pub const STRING_BYTES: usize = 64 << 10;
/// Values inside the fragment: members, list elements and path segments.
pub const MEMBERS: usize = 4096;
/// Nesting of a body.
pub const DEPTH: usize = 32;

/// The refusal for what exceeds one of them.
pub(super) fn too_large(detail: &'static str) -> Refusal {
    Refusal::new(Code::InputTooLarge, detail)
}
