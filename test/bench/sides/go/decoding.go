package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/smartcontractkit/data-streams-sdk/go/report"
	v10 "github.com/smartcontractkit/data-streams-sdk/go/report/v10"
	v11 "github.com/smartcontractkit/data-streams-sdk/go/report/v11"
	v12 "github.com/smartcontractkit/data-streams-sdk/go/report/v12"
	v13 "github.com/smartcontractkit/data-streams-sdk/go/report/v13"
	v2 "github.com/smartcontractkit/data-streams-sdk/go/report/v2"
	v3 "github.com/smartcontractkit/data-streams-sdk/go/report/v3"
	v4 "github.com/smartcontractkit/data-streams-sdk/go/report/v4"
	v5 "github.com/smartcontractkit/data-streams-sdk/go/report/v5"
	v6 "github.com/smartcontractkit/data-streams-sdk/go/report/v6"
	v7 "github.com/smartcontractkit/data-streams-sdk/go/report/v7"
	v8 "github.com/smartcontractkit/data-streams-sdk/go/report/v8"
	v9 "github.com/smartcontractkit/data-streams-sdk/go/report/v9"
)

// decode decodes a full report, given in hexadecimal digits after 0x.
func decode[T report.Data](fullReport string) (*report.Report[T], error) {
	payload, err := hex.DecodeString(strings.TrimPrefix(fullReport, "0x"))
	if err != nil {
		return nil, err
	}
	return report.Decode[T](payload)
}

// decoder writes out what a report decodes to, and decodes so many reports.
type decoder struct {
	describe func(fullReport string) (string, error)
	repeat   func(reports []string, times int) error
}

// last is looked at by nobody, but may be: what is decoded can't be left out.
var last any

func decoderOf[T report.Data]() decoder {
	return decoder{
		describe: func(fullReport string) (string, error) {
			decoded, err := decode[T](fullReport)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%+v", decoded.Data), nil
		},
		repeat: func(reports []string, times int) error {
			for index := 0; index < times; index++ {
				decoded, err := decode[T](reports[index%len(reports)])
				if err != nil {
					return err
				}
				last = decoded
			}
			return nil
		},
	}
}

var decoders = map[int]decoder{
	2:  decoderOf[v2.Data](),
	3:  decoderOf[v3.Data](),
	4:  decoderOf[v4.Data](),
	5:  decoderOf[v5.Data](),
	6:  decoderOf[v6.Data](),
	7:  decoderOf[v7.Data](),
	8:  decoderOf[v8.Data](),
	9:  decoderOf[v9.Data](),
	10: decoderOf[v10.Data](),
	11: decoderOf[v11.Data](),
	12: decoderOf[v12.Data](),
	13: decoderOf[v13.Data](),
}

type decoding struct {
	reports []string
	decoder decoder
}

// prepare answers with what each of these reports decodes to.
func (d *decoding) prepare(given struct {
	Version int
	Reports []string
}) (any, error) {
	decoder, ok := decoders[given.Version]
	if !ok {
		return nil, fmt.Errorf("the SDK decodes no V%d", given.Version)
	}
	d.reports, d.decoder = given.Reports, decoder
	described := make([]string, len(given.Reports))
	for index, fullReport := range given.Reports {
		text, err := decoder.describe(fullReport)
		if err != nil {
			return nil, err
		}
		described[index] = text
	}
	return described, nil
}

// round answers with the microseconds on a processor that one decode takes.
func (d *decoding) round(given struct{ Times int }) (any, error) {
	if len(d.reports) == 0 {
		return nil, errors.New("nothing was prepared")
	}
	load := startLoad()
	if err := d.decoder.repeat(d.reports, given.Times); err != nil {
		return nil, err
	}
	return load.cpuMs() * 1e3 / float64(given.Times), nil
}
