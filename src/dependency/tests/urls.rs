use std::borrow::Cow;

use super::super::{InsecureUrl, TemplateError, UrlError, UrlTemplate, check_url};

#[test]
fn s4_4_plain_http_only_on_loopback_or_listed_with_a_reason() {
    let listed = |url: &str, insecure, reason: &str| {
        [InsecureUrl { url: url.to_owned(), insecure, reason: reason.to_owned() }]
    };
    let url = "http://idp.example.test/keys";
    assert_eq!(check_url(url, &[]).err(), Some(UrlError::Plain));
    assert!(check_url(url, &listed(url, true, "mesh encrypts")).is_ok());
    assert!(check_url(url, &listed(url, false, "mesh encrypts")).is_err());
    assert!(check_url(url, &listed(url, true, " ")).is_err());
    assert!(check_url(url, &listed("http://idp.example.test/", true, "x")).is_err());
    for loopback in ["http://127.0.0.1:1/a", "http://[::1]/a", "http://localhost/a"] {
        assert!(check_url(loopback, &[]).is_ok(), "{loopback}");
    }
    for plain in ["http://127.0.0.1.example.test/", "http://10.0.0.1/", "http://localhost.test/"] {
        assert_eq!(check_url(plain, &[]).err(), Some(UrlError::Plain), "{plain}");
    }
    assert_eq!(check_url("ftp://a.test/", &[]).err(), Some(UrlError::Scheme));
    assert_eq!(check_url("/a", &[]).err(), Some(UrlError::Malformed));
    assert_eq!(check_url("https://u:p@a.test/", &[]).err(), Some(UrlError::UserInfo));
    assert_eq!(check_url("https://a.test/#f", &[]).err(), Some(UrlError::Fragment));
}

fn expanded(template: &str, value: &str) -> Result<String, TemplateError> {
    let template = UrlTemplate::parse(template, &[]).unwrap();
    template.expand(|_| Some(Cow::Borrowed(value))).map(String::from)
}

#[test]
fn s8_5_a_variable_is_one_segment_whatever_its_value() {
    let template = "https://api.example.test/users/{sub}/profile";
    for (value, segment) in [
        ("alice", "alice"),
        ("a/../b", "a%2F..%2Fb"),
        ("a?b#c", "a%3Fb%23c"),
        ("%2e%2e", "%252e%252e"),
        ("a b\r\n", "a%20b%0D%0A"),
        ("é", "%C3%A9"),
        ("...", "..."),
    ] {
        let want = format!("https://api.example.test/users/{segment}/profile");
        assert_eq!(expanded(template, value).unwrap(), want);
    }
    for value in ["", ".", ".."] {
        assert_eq!(expanded(template, value), Err(TemplateError::NoSegment("sub".into())));
    }
    assert_eq!(
        expanded("https://api.example.test/u?name={n}&x=1", "a&x=2").unwrap(),
        "https://api.example.test/u?name=a%26x%3D2&x=1"
    );
    let template = UrlTemplate::parse("https://a.test/{b}/{claim:c}", &[]).unwrap();
    assert_eq!(template.variables().collect::<Vec<_>>(), ["b", "claim:c"]);
    let missing = template.expand(|name| (name == "b").then_some(Cow::Borrowed("x")));
    assert_eq!(missing.err(), Some(TemplateError::Missing("claim:c".into())));
}

#[test]
fn s8_5_text_and_value_together_make_no_dot_segment() {
    let template = UrlTemplate::parse("https://a.test/{a}{b}/x", &[]).unwrap();
    let dots = template.expand(|_| Some(Cow::Borrowed(".")));
    assert!(dots.is_err());
    let halves = UrlTemplate::parse("https://a.test/.{a}", &[]).unwrap();
    assert!(halves.expand(|_| Some(Cow::Borrowed("."))).is_err());
}

#[test]
fn a_template_that_is_none_is_refused() {
    let parse = |text| UrlTemplate::parse(text, &[]).err();
    for text in
        ["https://a.test/{", "https://a.test/}", "https://a.test/{}", "https://a.test/{{a}}"]
    {
        assert_eq!(parse(text), Some(TemplateError::Braces), "{text}");
    }
    for text in ["https://{h}/", "{url}", "https://a.test:{p}/", "https://{h}?a"] {
        assert_eq!(parse(text), Some(TemplateError::Place), "{text}");
    }
    assert_eq!(parse("https://a.test/../{a}"), Some(TemplateError::DotSegment));
    assert_eq!(parse("https://a.test/%2E./{a}"), Some(TemplateError::DotSegment));
    assert_eq!(parse("http://a.test/{a}"), Some(TemplateError::Url(UrlError::Plain)));
}
