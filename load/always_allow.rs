//! The yardstick: an `ext_authz` server that allows everything, on the same transport as
//! Portcullis (hyper's HTTP/2, mimalloc) and as most are built (tonic, the multi-threaded
//! runtime), so that what lies between the two figures is Portcullis' own work.
#![expect(clippy::print_stdout, reason = "a command-line tool says that it is up")]

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::auth::v3::authorization_client::AuthorizationClient;
use envoy_types::pb::envoy::service::auth::v3::authorization_server::{
    Authorization, AuthorizationServer,
};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{CheckRequest, CheckResponse, OkHttpResponse};
use envoy_types::pb::google::rpc::Status as RpcStatus;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Streams of one connection at once, and streams that a peer may reset before they were served:
/// Portcullis' defaults.
const STREAMS: u32 = 1024;
// As in src/serve/connection.rs; a test compares them.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 << 20;

#[derive(Debug, Parser)]
struct Args {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:9191")]
    listen: String,
    /// Name of the one header that every answer sets.
    #[arg(long, default_value = "x-always-allow")]
    header: String,
    /// Address of an `ext_authz` server whose allow of the first Check answers all of them instead:
    /// what Envoy and the backend do with such an answer, without the work that led to it.
    #[arg(long)]
    like: Option<String>,
}

struct AlwaysAllow {
    header: String,
    like: Option<String>,
    /// What every Check is answered.
    answer: OnceCell<CheckResponse>,
}

impl AlwaysAllow {
    async fn answer(&self, request: CheckRequest) -> Result<CheckResponse, Status> {
        let Some(address) = &self.like else { return Ok(one_header(&self.header)) };
        let client = AuthorizationClient::connect(format!("http://{address}")).await;
        let mut client = client.map_err(|e| Status::unavailable(format!("{address}: {e}")))?;
        let answer = client.check(request).await?.into_inner();
        match &answer.http_response {
            Some(HttpResponse::OkResponse(_)) => Ok(answer),
            _ => Err(Status::failed_precondition(format!("{address} does not allow this"))),
        }
    }
}

fn one_header(name: &str) -> CheckResponse {
    let header = HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            value: "1".to_owned(),
            ..HeaderValue::default()
        }),
        ..HeaderValueOption::default()
    };
    let ok = OkHttpResponse { headers: vec![header], ..OkHttpResponse::default() };
    CheckResponse {
        status: Some(RpcStatus::default()),
        http_response: Some(HttpResponse::OkResponse(ok)),
        ..CheckResponse::default()
    }
}

#[tonic::async_trait]
impl Authorization for AlwaysAllow {
    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let answer = self.answer.get_or_try_init(|| self.answer(request.into_inner())).await?;
        Ok(Response::new(answer.clone()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args = Args::parse();
    let listener =
        TcpListener::bind(&args.listen).await.map_err(|e| format!("{}: {e}", args.listen))?;
    println!("always-allow on {}", args.listen);
    let (header, like) = (args.header, args.like);
    let allow = AlwaysAllow { header, like, answer: OnceCell::new() };
    let service = AuthorizationServer::new(allow);
    let routes = Routes::new(service).prepare();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let mut connection = Builder::new(TokioExecutor::new());
            connection
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .max_pending_accept_reset_streams(Some(1024))
                .max_header_list_size(MAX_HEADER_BYTES)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .keep_alive_interval(Some(Duration::from_secs(30)));
            // Envoy going away is no news.
            drop(connection.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}
