//! Sends spans to the collector, beside the Checks: a bounded queue, and a task that empties it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::HeaderMap;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{
    SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::config::{Protocol, TracingConfig};
use super::spans::Item;
use super::tracer::Tracer;
use crate::model::Problem;
use crate::telemetry::Metrics;

/// Where to send, read and not yet connected.
#[derive(Debug, Clone)]
pub struct Collector {
    config: TracingConfig,
    url: String,
    ca: Option<Vec<u8>>,
}

/// The collector's client cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("the collector's client cannot be set up: {0}")]
pub struct CollectorError(String);

/// The bounded queue; never waited for.
#[derive(Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Item>,
    held: Arc<AtomicUsize>,
    limit: usize,
    dropped: Counter,
}

/// The task that sends.
#[derive(Debug)]
pub struct Exporting {
    stop: CancellationToken,
    task: JoinHandle<()>,
    held: Arc<AtomicUsize>,
    failed: Counter,
}

impl Queue {
    /// Takes `item`, or counts it as dropped.
    pub(super) fn offer(&self, item: Item) {
        let spans = item.count();
        let held = self.held.fetch_add(spans, Ordering::AcqRel);
        if held.saturating_add(spans) > self.limit || self.sender.try_send(item).is_err() {
            self.held.fetch_sub(spans, Ordering::AcqRel);
            self.dropped.inc_by(spans as u64);
        }
    }
}

impl Collector {
    /// What `config` names; nothing where it traces nothing. Relative paths start at `base`.
    ///
    /// # Errors
    /// A file of certificates that cannot be read.
    pub fn read(config: &TracingConfig, base: &Path) -> Result<Option<Self>, Vec<Problem>> {
        let Some(url) = config.url() else { return Ok(None) };
        let ca = config.ca_file.as_ref().map(|file| {
            let path = base.join(file);
            std::fs::read(&path).map_err(|error| {
                let message = format!("`{}` cannot be read: {error}", path.display());
                vec![Problem::new("/ca_file", message, "name a readable PEM file")]
            })
        });
        Ok(Some(Self { config: config.clone(), url, ca: ca.transpose()? }))
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Starts to send, on the runtime that this is called in. Connects to nothing yet.
    ///
    /// # Errors
    /// Certificates that cannot be used.
    pub fn start(self, metrics: &Metrics) -> Result<(Arc<Tracer>, Exporting), CollectorError> {
        let exporter = self.exporter()?;
        let config = self.config;
        let counts = metrics.spans.clone();
        let limit = config.queue as usize;
        let (sender, receiver) = mpsc::channel(limit);
        let held = Arc::new(AtomicUsize::new(0));
        let dropped = counts.dropped.clone();
        let queue = Queue { sender, held: Arc::clone(&held), limit, dropped };
        let stop = CancellationToken::new();
        let task = Task {
            receiver,
            exporter,
            scope: InstrumentationScope::builder("portcullis")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
            held: Arc::clone(&held),
            batch: config.batch as usize,
            delay: config.delay.0,
            timeout: config.timeout.0,
            failed: counts.failed.clone(),
            exported: counts.exported,
            sound: true,
        };
        let task = tokio::spawn(task.run(stop.clone()));
        let exporting = Exporting { stop, task, held, failed: counts.failed };
        Ok((Arc::new(Tracer::new(&config, queue)), exporting))
    }

    fn exporter(&self) -> Result<SpanExporter, CollectorError> {
        let failed = |error: String| CollectorError(error);
        let config = &self.config;
        let pairs = config.header_pairs().unwrap_or_default();
        let built = match config.protocol {
            Protocol::Grpc => {
                let mut tls = ClientTlsConfig::new().with_enabled_roots();
                if let Some(pem) = &self.ca {
                    tls = tls.ca_certificate(Certificate::from_pem(pem));
                }
                let headers: HeaderMap = pairs.into_iter().collect();
                let builder = SpanExporter::builder().with_tonic().with_endpoint(&self.url);
                let builder = builder.with_timeout(config.timeout.0);
                let builder = builder.with_metadata(MetadataMap::from_headers(headers));
                let secured = self.url.starts_with("https:");
                if secured { builder.with_tls_config(tls).build() } else { builder.build() }
            }
            Protocol::HttpProtobuf => {
                let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
                let headers = pairs
                    .iter()
                    .filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value)?)));
                let builder = SpanExporter::builder().with_http().with_endpoint(&self.url);
                let builder =
                    builder.with_http_client(self.client()?).with_headers(headers.collect());
                builder.with_timeout(config.timeout.0).build()
            }
        };
        let mut exporter = built.map_err(|error| failed(error.to_string()))?;
        exporter.set_resource(&self.resource());
        Ok(exporter)
    }

    fn client(&self) -> Result<reqwest::Client, CollectorError> {
        let failed = |error: reqwest::Error| CollectorError(error.to_string());
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(self.config.timeout.0)
            .pool_max_idle_per_host(1);
        if self.url.starts_with("https:") {
            if let Some(pem) = &self.ca {
                let all = reqwest::Certificate::from_pem_bundle(pem).map_err(failed)?;
                builder = builder.tls_certs_merge(all);
            }
        } else {
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(failed)
    }

    fn resource(&self) -> Resource {
        let config = &self.config;
        let own = [
            KeyValue::new("service.name", config.service_name.clone()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("telemetry.sdk.language", "rust"),
            KeyValue::new("telemetry.sdk.name", "opentelemetry"),
        ];
        let theirs = config.resource_attributes.iter();
        let theirs = theirs.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        Resource::builder_empty().with_attributes(theirs).with_attributes(own).build()
    }
}

/// What empties the queue.
struct Task {
    receiver: mpsc::Receiver<Item>,
    exporter: SpanExporter,
    scope: InstrumentationScope,
    held: Arc<AtomicUsize>,
    batch: usize,
    delay: Duration,
    timeout: Duration,
    exported: Counter,
    failed: Counter,
    /// Whether the last batch was taken.
    sound: bool,
}

impl Task {
    /// Sends until `stop`, and then what is left.
    async fn run(mut self, stop: CancellationToken) {
        let mut spans = Vec::new();
        loop {
            let first = tokio::select! {
                first = self.receiver.recv() => first,
                () = stop.cancelled() => None,
            };
            let Some(first) = first else { break };
            first.spans(&self.scope, &mut spans);
            self.collect(&mut spans, &stop).await;
            self.send(std::mem::take(&mut spans)).await;
        }
        while let Ok(item) = self.receiver.try_recv() {
            item.spans(&self.scope, &mut spans);
            if spans.len() >= self.batch {
                self.send(std::mem::take(&mut spans)).await;
            }
        }
        if !spans.is_empty() {
            self.send(spans).await;
        }
    }

    /// Waits for a whole batch, as long as a span may wait.
    async fn collect(&mut self, spans: &mut Vec<SpanData>, stop: &CancellationToken) {
        let now = tokio::time::Instant::now();
        let until = now.checked_add(self.delay).unwrap_or(now);
        while spans.len() < self.batch {
            let next = tokio::select! {
                next = self.receiver.recv() => next,
                () = sleep_until(until) => None,
                () = stop.cancelled() => None,
            };
            let Some(next) = next else { return };
            next.spans(&self.scope, spans);
        }
    }

    async fn send(&mut self, spans: Vec<SpanData>) {
        let count = spans.len();
        let sending = self.exporter.export(spans);
        let taken = matches!(tokio::time::timeout(self.timeout, sending).await, Ok(Ok(())));
        self.held.fetch_sub(count, Ordering::AcqRel);
        let counter = if taken { &self.exported } else { &self.failed };
        counter.inc_by(count as u64);
        if taken != self.sound {
            self.sound = taken;
            if taken {
                tracing::info!("the collector takes spans again");
            } else {
                tracing::warn!("the collector takes no spans; they are lost until it does");
            }
        }
    }
}

impl Exporting {
    /// Sends what is left until `deadline`; what is left then is lost, and counted.
    pub async fn stop(mut self, deadline: Instant) {
        self.stop.cancel();
        if timeout_at(deadline.into(), &mut self.task).await.is_err() {
            self.task.abort();
            self.failed.inc_by(self.held.load(Ordering::Acquire) as u64);
            tracing::warn!("spans were lost at the end: the collector did not take them in time");
        }
    }
}
