//! gRPC framing of one unary call (gRPC over HTTP/2, "Length-Prefixed-Message").

use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use tonic::Code as GrpcCode;

use crate::model::{Code, Refusal};

/// A compression flag and a length.
const PREFIX: usize = 5;

/// Receives the one message of a unary call.
///
/// # Errors
/// `undecodable`, `too_large`, or `cancelled` if the caller or its connection went away.
pub(super) async fn receive<B: Body<Data = Bytes>>(
    body: B,
    limit: usize,
) -> Result<Bytes, Refusal> {
    let mut body = pin!(body);
    let mut frames = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let gone = |_| Refusal::new(Code::Cancelled, "the call broke off");
        let Ok(data) = frame.map_err(gone)?.into_data() else { continue };
        // A usual Check is one frame, which is read where it lies.
        if first.is_empty() && frames.is_empty() {
            first = data;
        } else {
            if frames.is_empty() {
                frames.extend_from_slice(&first);
            }
            frames.extend_from_slice(&data);
        }
        let so_far = if frames.is_empty() { &first[..] } else { &frames[..] };
        check_length(so_far, limit)?;
    }
    if frames.is_empty() { message(first) } else { message(frames.freeze()) }
}

fn undecodable(detail: &'static str) -> Refusal {
    Refusal::new(Code::Undecodable, detail)
}

/// Refuses as soon as the length is known, before the bytes are.
fn check_length(so_far: &[u8], limit: usize) -> Result<(), Refusal> {
    let Some(prefix) = so_far.first_chunk::<PREFIX>() else { return Ok(()) };
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err(undecodable("the message is compressed"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > limit {
        return Err(Refusal::new(
            Code::TooLarge,
            "the message is larger than limits.max_check_size",
        ));
    }
    if so_far.len() - PREFIX > length {
        return Err(undecodable("more than one message"));
    }
    Ok(())
}

/// The frame without its prefix.
fn message(mut bytes: Bytes) -> Result<Bytes, Refusal> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else {
        return Err(undecodable("no message"));
    };
    let [_, length @ ..] = *prefix;
    bytes.advance(PREFIX);
    if bytes.len() != u32::from_be_bytes(length) as usize {
        return Err(undecodable("the message is cut"));
    }
    Ok(bytes)
}

/// How long the caller waits (`grpc-timeout`: at most eight digits and a unit).
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let amount = digits.parse::<u64>().ok()?;
    Some(match unit {
        "H" => Duration::from_hours(amount),
        "M" => Duration::from_mins(amount),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

/// The body of an answer: one message, then the status.
#[derive(Debug)]
pub(crate) struct Reply {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = self.data.take().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}

fn head(body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    let value = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

/// An answer of one message, framed already, with status OK.
pub(super) fn reply(frame: Bytes) -> Response<Reply> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    head(Reply { data: Some(frame), trailers: Some(trailers) })
}

/// An answer that is a gRPC error, without message.
pub(super) fn error(code: GrpcCode, message: &'static str) -> Response<Reply> {
    let mut response = head(Reply { data: None, trailers: None });
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(code as i32));
    headers.insert("grpc-message", HeaderValue::from_static(message));
    response
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, stream};
    use http_body_util::StreamBody;

    use super::*;

    fn parse(chunks: &[&[u8]], limit: usize) -> Result<Bytes, Code> {
        let frames: Vec<_> = chunks
            .iter()
            .map(|c| Ok::<_, std::io::Error>(Frame::data(Bytes::copy_from_slice(c))))
            .collect();
        let body = StreamBody::new(stream::iter(frames));
        receive(body, limit).now_or_never().unwrap().map_err(|refusal| refusal.code)
    }

    #[test]
    fn s3_6_every_malformed_message_is_a_denial() {
        let whole = [0, 0, 0, 0, 2, 0x0a, 0];
        assert_eq!(parse(&[&whole], 64).unwrap(), [0x0a, 0][..]);
        for cut in 1..whole.len() {
            assert!(parse(&[&whole[..cut], &whole[cut..]], 64).is_ok(), "in two frames at {cut}");
            assert_eq!(parse(&[&whole[..cut]], 64), Err(Code::Undecodable), "cut at {cut}");
        }
        assert_eq!(parse(&[], 64), Err(Code::Undecodable));
        assert_eq!(parse(&[&[1, 0, 0, 0, 0]], 64), Err(Code::Undecodable), "compressed");
        assert_eq!(parse(&[&whole, &whole], 64), Err(Code::Undecodable), "two messages");
        assert_eq!(parse(&[&[0, 0, 0, 0, 65]], 64), Err(Code::TooLarge), "by its length alone");
        assert_eq!(parse(&[&[0, 0xff, 0xff, 0xff, 0xff]], 64), Err(Code::TooLarge));
    }

    #[test]
    fn the_callers_timeout_has_a_unit_and_bounded_digits() {
        let of = |text: &str| {
            timeout(&HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-timeout"),
                HeaderValue::from_str(text).unwrap(),
            )]))
        };
        assert_eq!(of("200m"), Some(Duration::from_millis(200)));
        assert_eq!(of("1S"), Some(Duration::from_secs(1)));
        assert_eq!(of("99999999H"), Some(Duration::from_hours(99_999_999)));
        assert_eq!(of("0n"), Some(Duration::ZERO));
        for bad in ["", "m", "200", "-1m", "1x", "123456789m", "1 m"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
