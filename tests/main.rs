//! Portcullis as it is used: the real binary behind a real Envoy, with a backend that says what
//! it saw. And the architecture, as rules over the source.

#[cfg(test)]
#[path = "../deploy/playground/kit.rs"]
mod kit;

#[cfg(test)]
mod harness;

#[cfg(test)]
mod answers;
#[cfg(test)]
mod api;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod bodies;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod configs;
#[cfg(test)]
mod control;
#[cfg(test)]
mod control_proto;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod envoy_files;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod journey;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod parity;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod shapes;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod spellings;
#[cfg(test)]
mod spoofing;
#[cfg(test)]
mod story;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod tls_doors;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod with_parts;
