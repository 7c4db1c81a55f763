//! The control door's contract, and the code that was made of it.

use crate::harness::root;

const GENERATED: &str = "src/serve/control/messages.rs";

fn descriptors() -> prost_types::FileDescriptorSet {
    let file = "portcullis/control/v1/control.proto";
    protox::compile([file], [root().join("proto")]).unwrap()
}

/// Made again with `PORTCULLIS_GENERATE=1 cargo test --test main control_proto`.
#[test]
fn the_generated_messages_are_those_of_the_contract() {
    let folder = crate::harness::Folder::new();
    let mut config = prost_build::Config::new();
    config.out_dir(folder.path()).compile_fds(descriptors()).unwrap();
    let made = std::fs::read_to_string(folder.path().join("portcullis.control.v1.rs")).unwrap();
    if std::env::var_os("PORTCULLIS_GENERATE").is_some() {
        std::fs::write(root().join(GENERATED), &made).unwrap();
    }
    let kept = std::fs::read_to_string(root().join(GENERATED)).unwrap();
    assert!(kept == made, "{GENERATED} is not what proto/ says; make it again");
}

#[test]
fn every_method_of_the_contract_is_served_and_called() {
    let set = descriptors();
    let file = set.file.iter().find(|file| !file.service.is_empty()).unwrap();
    let service = &file.service[0];
    let source = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let (server, client) =
        (source("src/serve/control/service.rs"), source("src/serve/control/client.rs"));
    for method in &service.method {
        let path = format!("\"/{}.{}/{}\"", file.package(), service.name(), method.name());
        assert_eq!(server.matches(&path).count(), 1, "{path}");
        assert_eq!(client.matches(&path).count(), 1, "{path}");
    }
    assert_eq!(server.matches("\"/portcullis.control.").count(), service.method.len());
}
