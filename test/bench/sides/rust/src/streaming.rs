//! Frames to reports, as the SDK brings them.

use crate::{decoding::decode, load::Load};
use chainlink_data_streams_report::{feed_id::ID, report::v3::ReportDataV3};
use chainlink_data_streams_sdk::{
    config::{Config, WebSocketHighAvailability},
    stream::Stream,
};
use serde::Deserialize;
use serde_json::{json, Value};
use std::{error::Error, hint::black_box};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measure {
    endpoint: String,
    ws_endpoint: String,
    #[serde(rename = "feedIDs")]
    feed_ids: Vec<String>,
    ha_mode: bool,
    count: usize,
    skip: usize,
    read: String,
}

/// Receives `count` reports, `skip` of them before the clock starts.
pub async fn measure(given: Measure) -> Result<Value, Box<dyn Error>> {
    let ids: Result<Vec<ID>, _> = given.feed_ids.iter().map(|id| ID::from_hex_str(id)).collect();
    let config = Config::new(
        "key".into(),
        "secret".into(),
        given.endpoint,
        given.ws_endpoint,
    )
    .with_ws_ha(if given.ha_mode {
        WebSocketHighAvailability::Enabled
    } else {
        WebSocketHighAvailability::Disabled
    })
    .build()?;
    let is_decoded = given.read == "decoded";
    let mut stream = Stream::new(&config, ids?).await?;
    stream.listen().await?;
    let mut load = Load::start();
    for seen in 1..=given.count {
        let report = stream.read().await?.report;
        if is_decoded {
            black_box(decode(&report.full_report, ReportDataV3::decode)?);
        } else {
            black_box(report.full_report.as_bytes().last());
        }
        if seen == given.skip {
            load = Load::start();
        }
    }
    let (ms, cpu_ms) = (load.ms(), load.cpu_ms());
    stream.close().await?;
    Ok(json!({ "ms": ms, "cpuMs": cpu_ms, "reports": given.count - given.skip }))
}
