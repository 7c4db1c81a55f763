//! Draws a trace, as Jaeger's query API returns it: one bar for each span, below its parent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::Error;

const WIDTH: f64 = 1000.0;
const LABELS: f64 = 420.0;
const ROW: f64 = 22.0;
const TOP: f64 = 44.0;

struct Span {
    id: String,
    parent: Option<String>,
    name: String,
    service: String,
    start: f64,
    took: f64,
    about: String,
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn parent(span: &Value) -> Option<String> {
    let all = span["references"].as_array()?;
    Some(text(&all.iter().find(|reference| reference["refType"] == "CHILD_OF")?["spanID"]))
}

fn spans(trace: &Value) -> Vec<Span> {
    let services = &trace["processes"];
    let all = trace["spans"].as_array().cloned().unwrap_or_default();
    let one = |span: &Value| {
        let tag = |key: &str| {
            let tags = span["tags"].as_array()?;
            Some(text(&tags.iter().find(|tag| tag["key"] == key)?["value"]))
        };
        let words = [
            "portcullis.reason",
            "portcullis.cache",
            "http.response.status_code",
            "http.status_code",
        ];
        Span {
            id: text(&span["spanID"]),
            parent: parent(span),
            name: text(&span["operationName"]),
            service: services
                .get(text(&span["processID"]))
                .map(|process| text(&process["serviceName"]))
                .unwrap_or_default(),
            start: span["startTime"].as_f64().unwrap_or_default(),
            took: span["duration"].as_f64().unwrap_or_default(),
            about: words.iter().filter_map(|word| tag(word)).collect::<Vec<_>>().join(" "),
        }
    };
    let mut spans: Vec<Span> = all.iter().map(one).collect();
    spans.sort_by(|a, b| a.start.total_cmp(&b.start).then(b.took.total_cmp(&a.took)));
    spans
}

/// The spans in the order of a tree, each with its depth.
fn tree(spans: &[Span]) -> Vec<(usize, &Span)> {
    fn below<'s>(
        spans: &'s [Span],
        parent: Option<&str>,
        depth: usize,
        out: &mut Vec<(usize, &'s Span)>,
    ) {
        let known = |id: &Option<String>| {
            id.as_ref().filter(|id| spans.iter().any(|s| s.id == **id)).cloned()
        };
        for span in spans.iter().filter(|span| known(&span.parent).as_deref() == parent) {
            out.push((depth, span));
            below(spans, Some(&span.id), depth + 1, out);
        }
    }
    let mut out = Vec::new();
    below(spans, None, 0, &mut out);
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The SVG of the first trace in Jaeger's answer.
///
/// # Errors
/// If there is none.
pub(crate) fn svg(answer: &Value) -> Result<String, Error> {
    const COLOURS: [&str; 5] = ["#7b8794", "#2f6fde", "#2a9d6f", "#c77d1e", "#8a4fbf"];
    let spans = spans(answer.pointer("/data/0").ok_or("there is no trace")?);
    let rows = tree(&spans);
    let begin = spans.first().ok_or("the trace has no spans")?.start;
    let end = spans.iter().map(|span| span.start + span.took).fold(begin, f64::max);
    let scale = (WIDTH - LABELS - 120.0) / (end - begin).max(1.0);
    #[expect(clippy::cast_precision_loss, reason = "a few rows")]
    let y_of = |row: usize| TOP + ROW * row as f64;
    let height = y_of(rows.len()) + 12.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"14\" fill=\"#1f2933\">One request: {:.2} ms, {} spans</text>\n",
        (end - begin) / 1000.0,
        rows.len(),
    );
    let mut services = BTreeMap::new();
    for (row, (depth, span)) in rows.iter().enumerate() {
        let count = services.len();
        let colour = *services.entry(&span.service).or_insert(count) % COLOURS.len();
        let colour = COLOURS.get(colour).unwrap_or(&"#000000");
        let y = y_of(row);
        #[expect(clippy::cast_precision_loss, reason = "a few levels")]
        let indent = 12.0 + 14.0 * *depth as f64;
        let (x, width) = (LABELS + (span.start - begin) * scale, (span.took * scale).max(1.5));
        let (service, name) = (escaped(&span.service), escaped(&span.name));
        let about = escaped(&span.about);
        let _ = writeln!(
            out,
            "<text x=\"{indent}\" y=\"{:.1}\" fill=\"#1f2933\"><tspan fill=\"{colour}\" font-weight=\"bold\">{service}</tspan> {name}</text>\n\
             <rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#52606d\">{:.2} ms {about}</text>",
            y + 11.0,
            y + 1.0,
            x + width + 4.0,
            y + 11.0,
            span.took / 1000.0,
        );
    }
    out.push_str("</svg>\n");
    Ok(out)
}
