//! The `Connection` header (RFC 9110, section 7.6.1): what it names, the next hop removes.
//!
//! Envoy keeps a client's `Connection` where the request asks for an upgrade. A client that names
//! a header there would have a proxy behind Envoy take away what we set, after we set it.

use crate::model::{Code, Refusal, Request};

/// Options that name no header of ours or of the backend's.
const HARMLESS: [&str; 5] = ["close", "keep-alive", "upgrade", "te", "http2-settings"];

/// Refuses a request whose `Connection` names any other header.
pub(super) fn check(request: &Request) -> Result<(), Refusal> {
    for value in request.headers.all("connection") {
        for option in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            let harmless = |known: &&str| option.eq_ignore_ascii_case(known.as_bytes());
            if !option.is_empty() && !HARMLESS.iter().any(harmless) {
                let detail = "the Connection header names a header that a next hop would remove";
                return Err(Refusal::new(Code::ConnectionOptions, detail));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Headers;

    fn checked(values: &[&str]) -> Result<(), Code> {
        let fields = values.iter().map(|value| ("connection", value.as_bytes()));
        let request = Request { headers: Headers::from_pairs(fields), ..Request::default() };
        check(&request).map_err(|refusal| refusal.code)
    }

    #[test]
    fn s7_3_a_client_cannot_have_a_next_hop_remove_what_we_set() {
        for ours in ["x-auth-context", "X-Auth-Context", "authorization", "upgrade, x-a", "\u{e9}"]
        {
            assert_eq!(checked(&[ours]), Err(Code::ConnectionOptions), "{ours}");
        }
        assert_eq!(checked(&["Upgrade", "x-auth-context"]), Err(Code::ConnectionOptions));
        for fine in ["", "close", "Keep-Alive, Upgrade", "Upgrade, HTTP2-Settings", "TE,"] {
            assert_eq!(checked(&[fine]), Ok(()), "{fine}");
        }
        assert_eq!(checked(&[]), Ok(()));
    }
}
