//! The configurations in `deploy/config/`.

use std::process::{Command, Output};

use crate::harness::{Folder, files, root, tokens};

fn check_config(file: &str, change: impl Fn(String) -> String) -> Output {
    let folder = Folder::new();
    tokens::write_keys(folder.path());
    let keys = folder.path().join("jwks.json").display().to_string();
    let text = files::shipped(file).replace("../../target/quickstart/jwks.json", &keys);
    let text = text.replace("../../", &format!("{}/", root().display()));
    let file = folder.write("portcullis.yaml", &change(text));
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.arg("check-config").arg("--config").arg(file).output().unwrap()
}

#[test]
fn every_configuration_is_valid() {
    for entry in std::fs::read_dir(root().join("deploy/config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "yaml") {
            let file = path.strip_prefix(root()).unwrap().display().to_string();
            let output = check_config(&file, |text| text);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{file}: {said}");
        }
    }
}

#[test]
fn a_wrong_configuration_names_every_fault_at_once() {
    let output = check_config("deploy/config/quickstart.yaml", |text| {
        text.replace("audiences: [water-data]", "audience: [water-data]")
            .replace("access: public", "access: everyone")
            .replace("timeout: 350ms", "timeout: 350")
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for text in ["audience", "everyone", "timeout", "portcullis.yaml:"] {
        assert!(said.contains(text), "{text} not in {said}");
    }
}
