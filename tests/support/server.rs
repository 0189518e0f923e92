//! Runs the real server, and asks it over plain HTTP/1.1.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A server that runs; it is killed where it was not stopped.
pub struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
    /// The name of its model.
    pub model: String,
    pub capture: Option<PathBuf>,
}

/// A response, taken apart.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// How a server ended.
pub struct Stopped {
    pub status: i32,
    pub stderr: String,
}

impl Server {
    /// Starts `stepscope serve` on a free port with these arguments, and waits until it listens.
    pub fn start(model: &Path, arguments: &[&str]) -> Self {
        Self::start_with(model, arguments, &[])
    }

    /// The same with variables in its environment.
    pub fn start_with(model: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stepscope"))
            .args(["serve", "--listen", "127.0.0.1:0", "--model"])
            .arg(model)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("stdout is text");
        let Ok(told) = serde_json::from_str::<Value>(&line) else {
            let mut stderr = String::new();
            child.stderr.take().expect("stderr is piped").read_to_string(&mut stderr).expect("stderr is text");
            panic!("the server did not start: {stderr}");
        };
        let text = |name: &str| told[name].as_str().map(str::to_owned);
        let address = text("listening").expect("an address").trim_start_matches("http://").to_owned();
        let model = text("model").expect("a model");
        Self { child, address, model, capture: text("capture").map(PathBuf::from) }
    }

    /// Asks, and waits for the whole answer.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut stream = self.send(method, path, headers, body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        Response::read(&bytes)
    }

    pub fn get(&self, path: &str) -> Response {
        self.ask("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.ask("POST", path, &[], &body.to_string())
    }

    /// The body of a file, which need not be text.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.send("GET", path, &[], "").read_to_end(&mut bytes).expect("an answer");
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        unchunked(&bytes[end + 4..])
    }

    /// Asks, and leaves the connection to be read from.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("the server reads");
        stream
    }

    /// The value of a metric without labels of its own.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics").body;
        let line = page.lines().find(|line| line.starts_with(&format!("{name}{{")));
        let value = line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {page}"))
    }

    /// Waits until a metric has a value.
    pub fn wait_for(&self, name: &str, is_wanted: impl Fn(f64) -> bool) {
        let begun = Instant::now();
        while !is_wanted(self.metric(name)) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{name} stays {}", self.metric(name));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(self) -> Stopped {
        self.terminate();
        self.wait()
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Stopped {
        let mut stderr = String::new();
        self.child.stderr.take().expect("stderr is piped").read_to_string(&mut stderr).expect("stderr is text");
        let status = self.child.wait().expect("it ends");
        Stopped { status: status.code().unwrap_or(-1), stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Response {
    fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_lowercase(), value.trim().to_owned())
        };
        let headers: Vec<(String, String)> = lines.map(header).collect();
        let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = &bytes[end + 4..];
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        let body = String::from_utf8(body).expect("a body is text");
        Self { status: status.expect("a status"), headers, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The id that finds the request in a capture.
    pub fn id(&self) -> &str {
        self.header("x-request-id").expect("every response has an id")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The data of a stream's events, which end with `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        let mut data: Vec<&str> = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.body);
        data.iter().map(|data| serde_json::from_str(data).expect("an event is JSON")).collect()
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n").expect("a chunk's head");
        let length = std::str::from_utf8(&bytes[..end]).expect("a length");
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 4 + length..];
    }
}
