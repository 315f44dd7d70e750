// The official Go SDK as a side of the benchmarks. Questions and answers are lines of JSON: `startProgram` of rpc.mjs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type question struct {
	ID       uint64          `json:"id"`
	Name     string          `json:"name"`
	Argument json.RawMessage `json:"argument"`
}

type reply struct {
	ID     uint64 `json:"id"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// with reads the argument of a question and answers it.
func with[T any](argument json.RawMessage, handle func(T) (any, error)) (any, error) {
	var given T
	if err := json.Unmarshal(argument, &given); err != nil {
		return nil, err
	}
	return handle(given)
}

func main() {
	var decoding decoding
	lines := bufio.NewReader(os.Stdin)
	replies := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(err)
		}
		var result any
		switch asked.Name {
		case "measure":
			result, err = with(asked.Argument, measure)
		case "prepare":
			result, err = with(asked.Argument, decoding.prepare)
		case "round":
			result, err = with(asked.Argument, decoding.round)
		default:
			err = fmt.Errorf("there is no %s", asked.Name)
		}
		answer := reply{ID: asked.ID, Result: result}
		if err != nil {
			answer.Error = err.Error()
		}
		if err := replies.Encode(answer); err != nil {
			return
		}
	}
}
