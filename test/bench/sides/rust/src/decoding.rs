//! Hex string to struct, as the SDK does it.

use crate::load::Load;
use chainlink_data_streams_report::report::{
    base::ReportError, decode_full_report, v10::ReportDataV10, v11::ReportDataV11,
    v12::ReportDataV12, v13::ReportDataV13, v14::ReportDataV14, v2::ReportDataV2, v3::ReportDataV3,
    v4::ReportDataV4, v5::ReportDataV5, v6::ReportDataV6, v7::ReportDataV7, v8::ReportDataV8,
    v9::ReportDataV9,
};
use serde::Deserialize;
use serde_json::{json, Value};
use std::{error::Error, fmt::Debug, hint::black_box};

/// Decodes a full report, given in hexadecimal digits after `0x`.
pub fn decode<T>(
    full_report: &str,
    decode_blob: fn(&[u8]) -> Result<T, ReportError>,
) -> Result<T, Box<dyn Error>> {
    let digits = full_report.strip_prefix("0x").unwrap_or(full_report);
    let (_context, blob) = decode_full_report(&hex::decode(digits)?)?;
    Ok(decode_blob(&blob)?)
}

/// What a report decodes to, written out.
type Describe = fn(&str) -> Result<String, Box<dyn Error>>;
/// Decodes so many reports, and looks at none.
type Repeat = fn(&[String], usize) -> Result<(), Box<dyn Error>>;

struct Decoder {
    describe: Describe,
    repeat: Repeat,
}

trait Data: Debug + Sized {
    const DECODE: fn(&[u8]) -> Result<Self, ReportError>;
}

macro_rules! data {
    ($($name:ident),*) => {
        $(impl Data for $name {
            const DECODE: fn(&[u8]) -> Result<Self, ReportError> = $name::decode;
        })*
    };
}
data!(
    ReportDataV2, ReportDataV3, ReportDataV4, ReportDataV5, ReportDataV6, ReportDataV7,
    ReportDataV8, ReportDataV9, ReportDataV10, ReportDataV11, ReportDataV12, ReportDataV13,
    ReportDataV14
);

fn decoder_of<T: Data>() -> Decoder {
    Decoder {
        describe: |full_report| Ok(format!("{:?}", decode(full_report, T::DECODE)?)),
        repeat: |reports, times| {
            for full_report in reports.iter().cycle().take(times) {
                black_box(decode(black_box(full_report), T::DECODE)?);
            }
            Ok(())
        },
    }
}

fn find_decoder(version: u32) -> Result<Decoder, String> {
    Ok(match version {
        2 => decoder_of::<ReportDataV2>(),
        3 => decoder_of::<ReportDataV3>(),
        4 => decoder_of::<ReportDataV4>(),
        5 => decoder_of::<ReportDataV5>(),
        6 => decoder_of::<ReportDataV6>(),
        7 => decoder_of::<ReportDataV7>(),
        8 => decoder_of::<ReportDataV8>(),
        9 => decoder_of::<ReportDataV9>(),
        10 => decoder_of::<ReportDataV10>(),
        11 => decoder_of::<ReportDataV11>(),
        12 => decoder_of::<ReportDataV12>(),
        13 => decoder_of::<ReportDataV13>(),
        14 => decoder_of::<ReportDataV14>(),
        _ => return Err(format!("the SDK decodes no V{version}")),
    })
}

#[derive(Deserialize)]
pub struct Prepare {
    version: u32,
    reports: Vec<String>,
}

#[derive(Deserialize)]
pub struct Round {
    times: usize,
}

#[derive(Default)]
pub struct Decoding {
    reports: Vec<String>,
    decoder: Option<Decoder>,
}

impl Decoding {
    /// Answers with what each of these reports decodes to.
    pub fn prepare(&mut self, given: Prepare) -> Result<Value, Box<dyn Error>> {
        let decoder = find_decoder(given.version)?;
        let described: Result<Vec<_>, _> = given
            .reports
            .iter()
            .map(|report| (decoder.describe)(report))
            .collect();
        self.reports = given.reports;
        self.decoder = Some(decoder);
        Ok(json!(described?))
    }

    /// Answers with the microseconds on a processor that one decode takes.
    pub fn round(&self, given: Round) -> Result<Value, Box<dyn Error>> {
        let decoder = self.decoder.as_ref().ok_or("nothing was prepared")?;
        let load = Load::start();
        (decoder.repeat)(&self.reports, given.times)?;
        Ok(json!(load.cpu_ms() * 1e3 / given.times as f64))
    }
}
