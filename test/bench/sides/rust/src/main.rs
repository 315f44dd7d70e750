//! The official Rust SDK as a side of the benchmarks. Questions and answers are lines of JSON: `startProgram` of rpc.mjs.

mod decoding;
mod load;
mod streaming;

use decoding::Decoding;
use serde::Deserialize;
use serde_json::{json, Value};
use std::{
    error::Error,
    io::{self, BufRead, Write},
};

#[derive(Deserialize)]
struct Question {
    id: u64,
    name: String,
    #[serde(default)]
    argument: Value,
}

async fn answer(
    name: &str,
    argument: Value,
    decoding: &mut Decoding,
) -> Result<Value, Box<dyn Error>> {
    match name {
        "measure" => streaming::measure(serde_json::from_value(argument)?).await,
        "prepare" => decoding.prepare(serde_json::from_value(argument)?),
        "round" => decoding.round(serde_json::from_value(argument)?),
        _ => Err(format!("there is no {name}").into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut decoding = Decoding::default();
    for line in io::stdin().lock().lines() {
        let Question { id, name, argument } = serde_json::from_str(&line?)?;
        let reply = match answer(&name, argument, &mut decoding).await {
            Ok(result) => json!({ "id": id, "result": result }),
            Err(error) => json!({ "id": id, "error": error.to_string() }),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}
