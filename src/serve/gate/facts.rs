//! What is known of a Check beside its outcome, and the answers that the gate makes itself.

use crate::audit::{Audit, SubjectHash};
use crate::model::{
    BodyForm, Challenge, Class, Code, Deny, Outcome, Record, Refusal, Request, Unavailable,
};

/// Longest path kept, in bytes.
const MAX_PATH: usize = 2048;
/// Longest host, method and source kept, in bytes.
const MAX_SHORT: usize = 255;

/// What doors render beside the outcome.
#[derive(Debug)]
pub struct Facts {
    /// What the journey told.
    pub record: Record,
    /// Stands for the subject.
    pub subject_hash: Option<SubjectHash>,
    /// Method, path, host or source is not as sent.
    pub altered: bool,
}

/// Whether text was kept as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retained {
    /// All of it.
    Whole,
    /// Cut, or with bytes replaced.
    Altered,
}

impl Facts {
    pub(super) fn new(record: Record) -> Self {
        Self { record, subject_hash: None, altered: false }
    }

    pub(super) fn describe(&mut self, request: &Request) {
        self.altered = describe(&mut self.record, request) == Retained::Altered;
    }

    pub(super) fn hash_subject(&mut self, audit: &Audit) {
        let token = self.record.token.as_deref();
        self.subject_hash = token.map(|token| audit.subject_hash(token));
    }
}

/// Fills in what the request itself says: request id, method, path without query, host, source.
/// Everything is bounded, and what is not UTF-8 is replaced, visibly.
pub fn describe(record: &mut Record, request: &Request) -> Retained {
    record.request_id = request_id(&request.id).map(Into::into);
    let path = request.target.split(|b| *b == b'?' || *b == b'#').next().unwrap_or_default();
    let mut retained = Retained::Whole;
    let mut keep = |bytes: &[u8], limit| {
        let (text, kept) = bounded(bytes, limit);
        if kept == Retained::Altered {
            retained = kept;
        }
        text
    };
    record.method = keep(request.method.as_bytes(), MAX_SHORT);
    record.path = keep(path, MAX_PATH);
    record.host = keep(&request.host, MAX_SHORT);
    record.source = keep(request.source.address.as_bytes(), MAX_SHORT);
    retained
}

/// The id, if it may be echoed and logged as it is.
fn request_id(id: &str) -> Option<&str> {
    let fits = (1..=128).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    fits.then_some(id)
}

fn bounded(bytes: &[u8], limit: usize) -> (Box<str>, Retained) {
    let kept = bytes.get(..limit).unwrap_or(bytes);
    match std::str::from_utf8(kept) {
        Ok(text) if kept.len() == bytes.len() => (text.into(), Retained::Whole),
        // The cut may go through a character: its first bytes are left out.
        Err(error) if error.error_len().is_none() && kept.len() < bytes.len() => {
            let whole = kept.get(..error.valid_up_to()).unwrap_or_default();
            (String::from_utf8_lossy(whole).into(), Retained::Altered)
        }
        _ => (String::from_utf8_lossy(kept).into(), Retained::Altered),
    }
}

/// The outcome of a refusal that happens outside the journey.
pub(super) fn refused(refusal: Refusal, body: BodyForm) -> Outcome {
    let Refusal { code, retry_after, .. } = refusal;
    let reason = code.into();
    match code.class() {
        Class::Unavailable => Outcome::Unavailable(Unavailable {
            reason,
            body,
            retry_after: retry_after.unwrap_or(1),
        }),
        class => Outcome::Deny(Deny {
            reason,
            // A refusal is never an allow, whatever its code says.
            status: if let Class::Deny(status) = class { status } else { 403 },
            challenge: None::<Challenge>,
            body,
            description: Code::about(code).into(),
            decision: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o04_text_is_cut_at_a_character_and_said_to_be() {
        for fill in [63, 127, 199, 254, 255, 256, 70_000] {
            let text = format!("{}€", "a".repeat(fill));
            let (kept, retained) = bounded(text.as_bytes(), MAX_SHORT);
            assert!(text.starts_with(&*kept));
            assert_eq!(retained == Retained::Whole, text.len() <= MAX_SHORT, "{fill}");
        }
        let (kept, retained) = bounded(b"/a\xff", MAX_PATH);
        assert_eq!((&*kept, retained), ("/a\u{fffd}", Retained::Altered));
    }

    #[test]
    fn a05_the_query_is_not_kept_and_an_odd_request_id_neither() {
        let request = Request {
            id: "x\r\nforged".to_owned(),
            target: b"/cb?code=marker&access_token=marker".to_vec().into(),
            host: vec![0xff].into(),
            ..Request::default()
        };
        let mut record = Record::default();
        assert_eq!(describe(&mut record, &request), Retained::Altered);
        assert_eq!((&*record.path, record.request_id), ("/cb", None));
    }
}
