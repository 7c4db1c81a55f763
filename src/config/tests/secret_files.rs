//! `x_file` beside `x`.

use super::sample::{Folder, Sample, lines, load};

fn with_file(name: &str, content: &[u8]) -> Result<Sample, Vec<String>> {
    let folder = Folder::new(&format!("secret-{name}"));
    folder.write("key.txt", content);
    let file = folder
        .write("portcullis.yaml", "listen: {check: [a]}\napi:\n  url: b\n  key_file: key.txt\n");
    load(&file, &[]).map_err(|report| lines(&report, folder.path()))
}

#[test]
fn the_file_is_found_beside_the_configuration_and_loses_one_line_end() {
    let cases: [(&[u8], &str); 4] =
        [(b"k\n", "k"), (b"k\r\n", "k"), (b"k", "k"), (b" k \n\n", " k \n")];
    for (content, key) in cases {
        let api = with_file("found", content).unwrap().api.unwrap();
        assert_eq!(api.key.unwrap().expose(), key);
        assert_eq!(api.key_file, None);
    }
}

#[test]
fn a_file_that_is_no_secret_is_refused_at_its_key() {
    let huge = vec![b'x'; (64 << 10) + 1];
    let cases: [(&[u8], &str); 4] = [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff", "is not UTF-8"),
        (&huge, "is larger than 65536 bytes"),
    ];
    for (content, why) in cases {
        let said = with_file("refused", content).unwrap_err();
        let expected = format!(
            "portcullis.yaml:4:13: api.key_file: the file \"key.txt\" {why} — name a readable \
             file; relative paths start at this file's folder"
        );
        assert_eq!(said, [expected]);
    }
}

#[test]
fn a_folder_is_no_secret() {
    let folder = Folder::new("secret-folder");
    let text = "listen: {check: [a]}\napi: {key_file: .}\n";
    let said = load(&folder.write("portcullis.yaml", text), &[]).unwrap_err().to_string();
    assert!(said.contains("api.key_file: the file \".\" is not a regular file"), "{said}");
}

#[test]
fn a_secret_may_come_from_a_file_that_the_environment_names() {
    let folder = Folder::new("secret-environment");
    folder.write("key.txt", "hunter2");
    let file = folder.write("portcullis.yaml", "listen: {check: [a]}\n");
    let sample = load(&file, &[("PORTCULLIS__API__KEY_FILE", "key.txt")]).unwrap();
    assert_eq!(sample.api.as_ref().unwrap().key.as_ref().unwrap().expose(), "hunter2");
    assert!(!format!("{sample:?}").contains("hunter2"));
}

#[test]
fn a05_the_revision_does_not_depend_on_secrets() {
    use crate::config::Environment;
    use crate::config::document::Document;
    use crate::config::schema::Schema;

    let folder = Folder::new("secret-revision");
    let schema = Schema::of::<Sample>().unwrap();
    let revision = |key: &str, url: &str| {
        let text = format!("listen: {{check: [a]}}\napi: {{key: {key}, url: {url}}}\n");
        let file = folder.write("portcullis.yaml", text);
        let document = Document::read(&file, &Environment::default(), &schema).unwrap();
        assert!(!format!("{document:?}").contains("hunter2"));
        document.revision().to_owned()
    };
    assert_eq!(revision("hunter2", "a"), revision("hunter3", "a"));
    assert_ne!(revision("hunter2", "a"), revision("hunter2", "b"));
}
