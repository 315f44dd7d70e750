package main

import (
	"context"

	streams "github.com/smartcontractkit/data-streams-sdk/go"
	"github.com/smartcontractkit/data-streams-sdk/go/feed"
	"github.com/smartcontractkit/data-streams-sdk/go/report"
	v3 "github.com/smartcontractkit/data-streams-sdk/go/report/v3"
)

type measurement struct {
	Ms      float64 `json:"ms"`
	CPUMs   float64 `json:"cpuMs"`
	Reports int     `json:"reports"`
}

// measure receives Count reports, Skip of them before the clock starts.
func measure(given struct {
	Endpoint   string
	WsEndpoint string
	FeedIDs    []string
	HaMode     bool
	Count      int
	Skip       int
	Read       string
}) (any, error) {
	client, err := streams.New(streams.Config{
		ApiKey:    "key",
		ApiSecret: "secret",
		RestURL:   given.Endpoint,
		WsURL:     given.WsEndpoint,
		WsHA:      given.HaMode,
	})
	if err != nil {
		return nil, err
	}
	ids := make([]feed.ID, len(given.FeedIDs))
	for index, id := range given.FeedIDs {
		if err := ids[index].FromString(id); err != nil {
			return nil, err
		}
	}
	ctx := context.Background()
	stream, err := client.Stream(ctx, ids)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	load := startLoad()
	for seen := 1; seen <= given.Count; seen++ {
		response, err := stream.Read(ctx)
		if err != nil {
			return nil, err
		}
		if given.Read == "decoded" {
			if last, err = report.Decode[v3.Data](response.FullReport); err != nil {
				return nil, err
			}
		} else {
			last = response.FullReport
		}
		if seen == given.Skip {
			load = startLoad()
		}
	}
	return measurement{load.ms(), load.cpuMs(), given.Count - given.Skip}, nil
}
