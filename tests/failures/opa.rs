//! An OPA server.

use std::time::Duration;

use serde_json::json;

use super::{Part, play};
use crate::harness::{Ask, Folder, Opa, Setup, World, port};
use crate::kit::token;

pub(super) const NAMES: &[&str] =
    &["OPA, closed", "OPA, stale", "OPA, open route", "OPA, open route that requires a header"];

const POLICY: &str = "package rows\n\ndecision := {\"allow\": true, \"reason\": \"first\"}\n";
const OTHER: &str =
    "package rows\n\ndecision := {\"allow\": false, \"reason\": \"replaced\", \"status\": 418}\n";

struct Engine {
    name: &'static str,
    world: World,
    folder: Folder,
    opa: Option<Opa>,
    port: u16,
    next: u32,
}

fn routes() -> String {
    let until = chrono::DateTime::from_timestamp(token::now() + 86_400, 0).unwrap().to_rfc3339();
    let open = format!("open_while_opa_fails: {{ until: \"{until}\", reason: a test }}");
    let route = |name: &str, more: &str| {
        format!(
            "- name: {name}\n  match: {{ path: \"/{name}/{{id}}\" }}\n  access: public\n  \
             policy: rows\n{more}"
        )
    };
    let requires = format!("  require_headers: [x-cwms-auth-context]\n  {open}\n");
    ["\nroutes:\n".to_owned(), route("closed", ""), route("open", &format!("  {open}\n"))]
        .into_iter()
        .chain([route("requires", &requires)])
        .collect()
}

fn write(folder: &Folder, policy: &str, revision: &str) {
    std::fs::create_dir_all(folder.path().join("bundle")).unwrap();
    folder.write("bundle/rows.rego", policy);
    let manifest = json!({"revision": revision, "roots": ["rows"]});
    folder.write("bundle/.manifest", &manifest.to_string());
}

impl Engine {
    fn start(name: &'static str, more: &str) -> Self {
        let (folder, port) = (Folder::new(), port());
        write(&folder, POLICY, "one");
        let opa = Opa::bundle(port, folder.path(), &folder.path().join("bundle"));
        let section = format!(
            "engine: opa\n  opa: {{ url: \"http://127.0.0.1:{port}\", timeout: 1s, pure: true{more} \
             }}\n  ttl: 1s\n  paths: [FOLDER/p, "
        );
        let entry = "  entry_points:\n  - { name: rows, rule: data.rows.decision }\n";
        // Both, so that the reasons of both are labels.
        let known = OTHER.replace("decision :=", "other :=").replace("package rows\n", "");
        let world = Setup::bare()
            .envoy("timeout: 0.5s", "timeout: 6s")
            .portcullis("budget: 400ms", "budget: 3s")
            .portcullis("paths: [", &section)
            .portcullis("  entry_points:\n", entry)
            .portcullis("\nroutes:\n", &routes())
            .portcullis(
                "\nuser_context:\n",
                "\naudit: { directory: FOLDER/audit }\nuser_context:\n",
            )
            .file("p/rows.rego", &format!("{POLICY}{known}\ndecision := other if input.never\n"))
            .start();
        Self { name, world, folder, opa: Some(opa), port, next: 0 }
    }

    fn restart(&mut self) {
        let bundle = self.folder.path().join("bundle");
        self.opa = Some(Opa::bundle(self.port, self.folder.path(), &bundle));
    }

    fn fresh(&mut self, route: &str) -> Ask {
        self.next += 1;
        Ask::get(&format!("/{route}/{}", self.next))
    }
}

impl Part for Engine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn dependency(&self) -> &'static str {
        "opa"
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn prepare(&mut self, failure: &str) {
        if self.name.ends_with("stale") {
            let ask = Ask::get(&format!("/closed/{}", failure.replace(' ', "-")));
            assert_eq!(self.world.ask(ask).status, 200);
        }
    }

    fn begin(&mut self, failure: &str) {
        let opa = self.opa.as_mut().unwrap();
        match failure {
            "paused" => opa.process.signal("STOP"),
            "killed" | "policies replaced" => {
                opa.process.signal("KILL");
                opa.process.ended(Duration::from_secs(10));
                self.opa = None;
            }
            other => panic!("{other}"),
        }
        if failure == "policies replaced" {
            write(&self.folder, OTHER, "two");
            self.restart();
            // Until the breaker, if it met the restart, tries again.
            super::until("it is asked", super::RECOVERY, || {
                let ask = self.fresh("closed");
                self.world.ask(ask).status == 418
            });
        }
    }

    fn end(&mut self, failure: &str) {
        match failure {
            "paused" => self.opa.as_ref().unwrap().process.signal("CONT"),
            "killed" => self.restart(),
            _ => {
                self.opa = None;
                write(&self.folder, POLICY, "three");
                self.restart();
            }
        }
    }

    fn ask(&mut self, failure: &str) -> Ask {
        match self.name {
            "OPA, stale" => Ask::get(&format!("/closed/{}", failure.replace(' ', "-"))),
            "OPA, open route" => self.fresh("open"),
            "OPA, open route that requires a header" => self.fresh("requires"),
            _ => self.fresh("closed"),
        }
    }

    fn is_well(&mut self) -> bool {
        let ask = self.fresh("closed");
        self.world.ask(ask).status == 200
    }
}

#[test]
fn s8_1_a_failing_opa_is_unavailable_where_it_is_closed() {
    play(&mut Engine::start("OPA, closed", ""));
}

#[test]
fn s8_1_a_failing_opa_serves_the_last_decision_where_it_may_be_stale() {
    play(&mut Engine::start("OPA, stale", ", on_failure: stale, stale_for: 10m"));
}

#[test]
fn s8_1_a_failing_opa_passes_everybody_where_a_route_is_open() {
    let mut engine = Engine::start("OPA, open route", "");
    play(&mut engine);
    engine.name = "OPA, open route that requires a header";
    play(&mut engine);
}
