//! YAML text → tree. One document of maps, lists and scalars; what makes YAML surprising (anchors,
//! tags, merge keys, repeated keys, several documents) is refused where it stands.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Value;

use super::report::{Fault, Origin, child};
use super::scalar;
use super::tree::{Key, Kind, Node, Scalar};

/// Levels of maps and lists inside one another.
const MAX_DEPTH: usize = 64;
/// Values in one file.
const MAX_NODES: usize = 500_000;

/// The tree of `text`, with the faults that do not hide others (repeated keys).
///
/// # Errors
/// The one fault after which the rest of the file cannot be read.
pub(super) fn parse(text: &str) -> Result<(Node, Vec<Fault>), Fault> {
    refuse_controls(text)?;
    let mut builder = Builder::default();
    let mut documents = 0;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|e| syntax(&e))?;
        let origin = at(span);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    let fix = "keep one; several files are several configurations";
                    return Err(Fault::new(origin, "", "a second YAML document starts here", fix));
                }
            }
            Event::Alias(_) => {
                let fix = "write the value out here again";
                let message = "YAML aliases (`*name`) are not read";
                return Err(Fault::new(origin, builder.pointer(), message, fix));
            }
            Event::Scalar(text, style, anchor, tag) => {
                builder.plain_only(&origin, anchor, tag.is_some())?;
                builder.scalar(&text, style, origin)?;
            }
            Event::SequenceStart(anchor, tag) => {
                builder.plain_only(&origin, anchor, tag.is_some())?;
                builder.open(Kind::List(Vec::new()), origin)?;
            }
            Event::MappingStart(anchor, tag) => {
                builder.plain_only(&origin, anchor, tag.is_some())?;
                builder.open(Kind::Map(Vec::new()), origin)?;
            }
            Event::SequenceEnd | Event::MappingEnd => builder.close(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    let root = builder.root.ok_or_else(empty)?;
    if matches!(&root.kind, Kind::Scalar(scalar) if scalar.value.is_null()) {
        return Err(empty());
    }
    Ok((root, builder.faults))
}

fn empty() -> Fault {
    let fix = "write at least `routes`";
    Fault::new(Origin::START, "", "the file holds no configuration", fix)
}

fn at(span: Span) -> Origin {
    Origin::File { line: span.start.line(), column: span.start.col() + 1 }
}

fn syntax(error: &saphyr_parser::ScanError) -> Fault {
    let mark = error.marker();
    let origin = Origin::File { line: mark.line().max(1), column: mark.col() + 1 };
    let fix = if error.info().contains("tab") {
        "indent with spaces"
    } else {
        "check indentation, quotes and brackets on this line and the one above"
    };
    Fault::new(origin, "", format!("not YAML: {}", error.info()), fix)
}

/// YAML allows no control characters but tab and line ends (section 5.1). A NUL would end the
/// scanner's input, and with it hide the rest of the file.
fn refuse_controls(text: &str) -> Result<(), Fault> {
    let (mut line, mut column) = (1, 1);
    for c in text.chars() {
        match c {
            '\n' => (line, column) = (line + 1, 1),
            '\t' | '\r' => column += 1,
            c if c.is_control() || c == '\u{feff}' => {
                let message = format!("the control character U+{:04X} is not YAML", u32::from(c));
                let fix = "remove it, or write it as an escape between double quotes";
                return Err(Fault::new(Origin::File { line, column }, "", message, fix));
            }
            _ => column += 1,
        }
    }
    Ok(())
}

/// A map or list that is still open.
struct Open {
    node: Node,
    /// The key whose value comes next.
    key: Option<Key>,
    /// Keys seen, with the line of each.
    seen: HashMap<String, usize>,
    /// The value that comes next belongs to a repeated key: it is read and dropped.
    repeated: bool,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    faults: Vec<Fault>,
    nodes: usize,
}

impl Builder {
    /// Pointer of the value that comes next.
    fn pointer(&self) -> String {
        self.open.iter().fold(String::new(), |pointer, open| match (&open.node.kind, &open.key) {
            (Kind::List(items), _) => child(&pointer, &items.len().to_string()),
            (_, Some(key)) => child(&pointer, &key.name),
            _ => pointer,
        })
    }

    fn plain_only(&self, origin: &Origin, anchor: usize, tag: bool) -> Result<(), Fault> {
        let (message, fix) = if anchor > 0 {
            ("YAML anchors (`&name`) are not read", "write the value out at each place")
        } else if tag {
            ("YAML tags (`!name`) are not read", "remove the tag; quotes make text of anything")
        } else {
            return Ok(());
        };
        Err(Fault::new(origin.clone(), self.pointer(), message, fix))
    }

    /// True where the next scalar is a key.
    fn wants_key(&self) -> bool {
        self.open
            .last()
            .is_some_and(|open| matches!(open.node.kind, Kind::Map(_)) && open.key.is_none())
    }

    fn count(&mut self, origin: &Origin) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("the file holds more than {MAX_NODES} values");
            return Err(Fault::new(origin.clone(), "", message, "make it smaller"));
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, origin: Origin) -> Result<(), Fault> {
        self.count(&origin)?;
        let plain = style == ScalarStyle::Plain;
        if self.wants_key() {
            return self.key(text, plain, origin);
        }
        let value = if plain { scalar::resolve(text) } else { Value::String(text.to_owned()) };
        let scalar = Scalar { text: text.to_owned(), plain, value };
        self.add(Node { origin, kind: Kind::Scalar(scalar) });
        Ok(())
    }

    fn key(&mut self, name: &str, plain: bool, origin: Origin) -> Result<(), Fault> {
        let pointer = self.pointer();
        if plain && name == "<<" {
            let fix = "write the keys out here";
            return Err(Fault::new(origin, pointer, "YAML merge keys (`<<`) are not read", fix));
        }
        if name.is_empty() {
            return Err(Fault::new(
                origin,
                pointer,
                "a key without a name",
                "write a name before `:`",
            ));
        }
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        let line = match origin {
            Origin::File { line, .. } => line,
            Origin::Environment(_) => 0,
        };
        if let Some(first) = open.seen.get(name) {
            let message = format!("the key `{name}` is given twice, first on line {first}");
            let fault =
                Fault::new(origin.clone(), child(&pointer, name), message, "keep one of the two");
            self.faults.push(fault.left_out());
            open.repeated = true;
        } else {
            open.seen.insert(name.to_owned(), line);
        }
        open.key = Some(Key { name: name.to_owned(), origin });
        Ok(())
    }

    fn open(&mut self, kind: Kind, origin: Origin) -> Result<(), Fault> {
        self.count(&origin)?;
        if self.wants_key() {
            let message = "a map or list stands where a key belongs";
            return Err(Fault::new(origin, self.pointer(), message, "write a name"));
        }
        if self.open.len() >= MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} levels of maps and lists");
            return Err(Fault::new(origin, "", message, "nest less deeply"));
        }
        let node = Node { origin, kind };
        self.open.push(Open { node, key: None, seen: HashMap::new(), repeated: false });
        Ok(())
    }

    fn close(&mut self) {
        if let Some(done) = self.open.pop() {
            self.add(done.node);
        }
    }

    fn add(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut open.node.kind {
            Kind::List(items) => items.push(node),
            Kind::Map(entries) => {
                let key = open.key.take();
                if std::mem::take(&mut open.repeated) {
                    return;
                }
                entries.extend(key.map(|key| (key, node)));
            }
            Kind::Scalar(_) => {}
        }
    }
}
