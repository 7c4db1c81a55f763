//! Both formats of the metrics.

use super::promtool;
use crate::harness::{Ask, Folder, Setup};

#[test]
fn the_metrics_are_well_formed_in_both_formats() {
    let world = Setup::quickstart().start();
    world.ask(Ask::get("/cwms-data/offices"));
    let classic = Ask::get("/metrics").header("accept", "text/plain").send(world.ports.admin);
    assert_eq!(classic.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = classic.text();
    assert!(text.contains("\n# TYPE portcullis_checks_total counter\n"), "{text}");
    promtool::run(&["check", "metrics"], &text).unwrap();
    promtool::run(&["check", "metrics"], &text.replace("# HELP", "# HALP")).unwrap_err();

    // As Prometheus asks, and read by its own parser, which wants a time for what it imports.
    let accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3";
    let open = Ask::get("/metrics").header("accept", accept).send(world.ports.admin);
    assert!(open.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"));
    let folder = Folder::new();
    let import = |text: &str| {
        let timed = text.lines().map(|line| {
            let sample = !line.starts_with('#');
            let (line, exemplar) = line.split_once(" # {").filter(|_| sample).unwrap_or((line, ""));
            let exemplar =
                if exemplar.is_empty() { String::new() } else { format!(" # {{{exemplar}") };
            let time = if sample { " 1700000000" } else { "" };
            format!("{line}{time}{exemplar}\n")
        });
        let file = folder.write("metrics.txt", &timed.collect::<String>()).display().to_string();
        let out = folder.path().join("tsdb").display().to_string();
        promtool::run(&["tsdb", "create-blocks-from", "openmetrics", &file, &out], "")
    };
    import(&open.text()).unwrap();
    import(&open.text().replace("# EOF\n", "")).unwrap_err();
}
