//! `stepscope serve`, as its clients see it: the real binary, asked over HTTP.

#[path = "../support/command.rs"]
mod command;
#[path = "../support/server.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod server;

mod answers;
mod clients;
mod limits;
mod ring;
mod stopping;
mod streams;
mod support;
