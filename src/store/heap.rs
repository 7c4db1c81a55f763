//! What values take on the heap, as the allocator rounds it up.

use serde_json::{Map, Value};

/// The two counts of an `Arc`.
const COUNTS: usize = 2 * size_of::<usize>();
/// Entries that a node of the standard library's trees has room for.
const IN_NODE: usize = 11;

/// What the allocator gives where `bytes` are asked for: multiples of 16, and from 64 bytes on
/// four sizes up to each double (mimalloc's size classes). Nothing for nothing.
#[must_use]
pub fn block(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

/// What an `Arc` takes of a value of `bytes`.
#[must_use]
pub fn shared(bytes: usize) -> usize {
    block(bytes + COUNTS)
}

/// What `value` holds on to, itself apart.
#[must_use]
pub fn json(value: &Value) -> usize {
    match value {
        Value::String(text) => block(text.len()),
        Value::Number(number) => block(number.as_str().len()),
        Value::Array(items) => {
            block(items.len() * size_of::<Value>()) + items.iter().map(json).sum::<usize>()
        }
        Value::Object(members) => object(members),
        Value::Null | Value::Bool(_) => 0,
    }
}

/// What an object of `members` holds on to.
#[must_use]
pub fn object(members: &Map<String, Value>) -> usize {
    let node = IN_NODE * (size_of::<String>() + size_of::<Value>()) + COUNTS;
    let inner = |(name, value): (&String, &Value)| block(name.len()) + json(value);
    members.len().div_ceil(IN_NODE) * block(node) + members.iter().map(inner).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_the_allocators() {
        let sizes = [0, 1, 16, 17, 64, 65, 129, 160, 161, 449, 1025];
        assert_eq!(sizes.map(block), [0, 16, 16, 32, 64, 80, 160, 160, 192, 512, 1280]);
    }

    #[test]
    fn json_is_counted_to_its_leaves() {
        assert_eq!(json(&json!([])) + json(&json!({})) + json(&json!(null)), 0);
        assert_eq!(json(&json!("abc")), 16);
        let one = json(&json!({"a": "b"}));
        assert!((600..800).contains(&one), "{one}");
        assert_eq!(json(&json!({"a": ["b"]})), one + block(size_of::<Value>()));
    }
}
