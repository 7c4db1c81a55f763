//! YAML with anchors as JSON, for the files of alerts.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

/// The one document of `text`; its scalars are texts.
pub(super) fn parse(text: &str) -> Value {
    let mut parser = Parser::new_from_str(text);
    let mut events = Vec::new();
    while let Some(event) = parser.next_event() {
        events.push(event.expect("YAML").0);
    }
    let begins = |event: &Event<'_>| matches!(event, Event::DocumentStart(_));
    let begin = events.iter().position(begins).expect("a document");
    let mut events = events.drain(begin + 1..);
    value(&mut events, &mut HashMap::new()).expect("a value")
}

/// The next value; nothing at the end of a list or map.
fn value<'t>(
    events: &mut impl Iterator<Item = Event<'t>>,
    anchors: &mut HashMap<usize, Value>,
) -> Option<Value> {
    let (anchor, value): (usize, Value) = match events.next()? {
        Event::Alias(anchor) => return Some(anchors[&anchor].clone()),
        Event::Scalar(text, _, anchor, _) => (anchor, text.into_owned().into()),
        Event::SequenceStart(anchor, _) => {
            let mut list = Vec::new();
            while let Some(one) = value(events, anchors) {
                list.push(one);
            }
            (anchor, list.into())
        }
        Event::MappingStart(anchor, _) => {
            let mut map = Map::new();
            while let Some(key) = value(events, anchors) {
                let one = value(events, anchors).expect("a value");
                map.insert(key.as_str().expect("a text").to_owned(), one);
            }
            (anchor, map.into())
        }
        Event::SequenceEnd | Event::MappingEnd => return None,
        other => panic!("{other:?}"),
    };
    if anchor > 0 {
        anchors.insert(anchor, value.clone());
    }
    Some(value)
}
