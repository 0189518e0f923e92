//! Who may ask: the key, the host that was asked for, and the page that asks.
//!
//! A page in a browser can reach a server on the same machine, by its address or by a name that it had resolved to it. So a
//! request has to name this server by an address, as localhost or by a name that the operator allows, and a request that says
//! which page it comes from has to come from this server's own.

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};

use super::error::ApiError;

/// What is asked of every request.
#[derive(Clone, Default)]
pub struct Guard {
    /// Names under which the server is reached, besides addresses and localhost.
    pub hosts: Vec<String>,
    /// BLAKE3 of the API key; `None` asks for none.
    key: Option<blake3::Hash>,
}

impl Guard {
    /// A guard that allows these hosts, and asks for the key if there is one.
    pub fn new(hosts: Vec<String>, key: Option<&str>) -> Self {
        Self { hosts, key: key.map(|key| blake3::hash(key.as_bytes())) }
    }

    /// Whether a request may be answered; `is_open` routes ask for no key.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap, is_open: bool) -> Result<(), ApiError> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = uri.authority().map(axum::http::uri::Authority::as_str).or_else(|| text(header::HOST));
        let host = host.ok_or_else(|| ApiError::refused("expected a `Host` header", None))?;
        if !self.is_own(name_of(host)) {
            let message = format!(
                "expected this server's address, localhost or an --allow-host as `Host`, found {:?}",
                name_of(host)
            );
            return Err(ApiError::forbidden(message, "host_not_allowed"));
        }
        if headers.contains_key(header::ORIGIN) {
            let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
            if origin.is_none_or(|(_, origin)| !origin.eq_ignore_ascii_case(host)) {
                let message = "pages of other origins may not ask this server";
                return Err(ApiError::forbidden(message, "origin_not_allowed"));
            }
        }
        let Some(key) = self.key.filter(|_| !is_open) else { return Ok(()) };
        let given = text(header::AUTHORIZATION).and_then(|value| value.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
        // Hashes compare in constant time.
        match given.map(|given| blake3::hash(given.as_bytes())) {
            Some(given) if given == key => Ok(()),
            _ => Err(ApiError::unauthorized()),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        let is_address = name.parse::<IpAddr>().is_ok();
        is_address
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

/// The host without its port and brackets.
fn name_of(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        return address;
    }
    match host.split_once(':') {
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, headers: &[(&'static str, &str)]) -> Result<(), String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header value"));
        }
        guard.check(&Uri::from_static("/v1/models"), &map, false).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_name_that_leads_here_by_somebody_elses_word_is_refused() {
        let guard = Guard::new(vec!["staging.example".to_owned()], None);
        for host in ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "10.0.0.7", "staging.example:80"] {
            assert_eq!(check(&guard, &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "staging.example.evil"] {
            assert!(check(&guard, &[("host", host)]).is_err(), "{host}");
        }
        assert!(check(&guard, &[]).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let guard = Guard::default();
        let from = |origin| check(&guard, &[("host", "127.0.0.1:8000"), ("origin", origin)]);
        assert_eq!(from("http://127.0.0.1:8000"), Ok(()));
        for origin in ["http://evil.example", "http://127.0.0.1:9000", "null", "http://127.0.0.1:8000.evil.example"] {
            assert!(from(origin).is_err(), "{origin}");
        }
    }

    #[test]
    fn the_key_is_asked_for() {
        let guard = Guard::new(Vec::new(), Some("secret"));
        let with = |value| check(&guard, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(with("Bearer secret"), Ok(()));
        assert_eq!(with("bearer secret"), Ok(()));
        for value in ["Bearer other", "Bearer", "secret", "Basic secret", "Bearer "] {
            assert!(with(value).is_err(), "{value}");
        }
        assert!(check(&guard, &[("host", "localhost")]).is_err());
    }
}
